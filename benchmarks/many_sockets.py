"""500 sockets on one session: delay of an event at the last socket, and delay of other requests meanwhile.

Each event contains the time of its creation, just before it is appended; each socket records the arrival. A separate
process opens the sockets and shares the machine with the server.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
from websockets.asyncio.client import connect
from websockets.typing import Origin

from benchmarks.figures import Figure
from benchmarks.live_page import AGENT, APP, tell_from_runtime
from benchmarks.serving import OURS, server
from benchmarks.stores import FOLDER, USER

SOCKETS = 500
EVENTS = 20
PAUSE = 0.1
"""Seconds between events."""

OPENED_AT_ONCE = 50
PATIENCE = 120.0
MADE = re.compile(r"made (\d+\.\d+)")


def agents() -> Path:
    """Write the agent that sends its time; return the agents folder."""
    folder = FOLDER / "crowd-agents"
    (folder / APP).mkdir(parents=True)
    (folder / APP / "__init__.py").write_text("from . import agent\n")
    (folder / APP / "agent.py").write_text(AGENT.format(events=EVENTS, pause=PAUSE))
    return folder


def longest_wait(address: str, done: threading.Event) -> list[float]:
    """Request `/health` repeatedly until told to stop; return the seconds of each response."""
    waits: list[float] = []
    with httpx.Client(trust_env=False, timeout=PATIENCE) as client:
        while not done.wait(0.02):
            began = time.perf_counter()
            client.get(f"{address}/health").raise_for_status()
            waits.append(time.perf_counter() - began)
    return waits


def new_session(address: str) -> str:
    """Create a session; return its id."""
    response = httpx.post(f"{address}/apps/{APP}/users/{USER}/sessions", json={}, trust_env=False)
    return str(response.raise_for_status().json()["id"])


def run_seconds(address: str, session: str) -> float:
    """Run the agent in a session; return the duration."""
    began = time.perf_counter()
    tell_from_runtime(address, session)
    return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    with server(OURS, agents=agents()) as (address, _):
        run_seconds(address, new_session(address))  # starts the agent's process
        alone = run_seconds(address, new_session(address))
        session = new_session(address)
        page = httpx.get(f"{address}/sessions/{APP}/{USER}/{session}/", trust_env=False).text
        [socket] = re.findall(r'data-socket="([^"]+)"', page)
        listeners = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.many_sockets", f"{address}{socket}?after=0"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert listeners.stdout is not None
        if listeners.stdout.readline() != "open\n":
            raise RuntimeError("The sockets could not be opened.")
        done = threading.Event()
        waits: list[float] = []
        asking = threading.Thread(target=lambda: waits.extend(longest_wait(address, done)))
        asking.start()
        duration = run_seconds(address, session)
        late = json.loads(listeners.stdout.readline())
        done.set()
        asking.join()
        listeners.wait()
    what = f"{SOCKETS} sockets on one session"
    print(Figure(f"{what}: an event at the last of them, worst of {EVENTS}", "s", max(late), 2).as_line())
    print(Figure("… median", "s", sorted(late)[len(late) // 2]).as_line())
    print(Figure("… `/health` meanwhile, worst", "s", max(waits), 1).as_line())
    what = f"… the run of {EVENTS} events, {PAUSE} s apart"
    print(Figure(what, "s", duration, peer=alone, peer_name="the same run without sockets").as_line())


async def listen(address: str) -> None:
    """Open the sockets; print the delay of each event at the last of them, when all have received all."""
    delays: dict[str, list[float]] = {}
    gate = asyncio.Semaphore(OPENED_AT_ONCE)
    opened = asyncio.Barrier(SOCKETS + 1)

    async def follow() -> None:
        async with gate:
            socket = await connect(
                address.replace("http", "ws", 1),
                origin=Origin(address.split("/ws/")[0]),
                open_timeout=PATIENCE,
                proxy=None,
            )
        await opened.wait()
        received = 0
        async for message in socket:
            now = time.time()
            for moment in MADE.findall(str(message)):
                delays.setdefault(moment, []).append(now - float(moment))
                received += 1
            if received == EVENTS:
                break
        await socket.close()

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        for _ in range(SOCKETS):
            group.create_task(follow())
        await opened.wait()
        print("open", flush=True)
    if sorted(map(len, delays.values())) != [SOCKETS] * EVENTS:
        raise RuntimeError("A socket missed an event or received one twice.")
    print(json.dumps([max(times) for times in delays.values()]), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(listen(sys.argv[1]))
    else:
        main()
