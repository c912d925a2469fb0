"""Streamed tokens of workers at sockets of another web process, with users: delay of each token.

`manage.py team` serves on the database of DATABASE_URL. Runs are started at the first web process and watched at the
second one. Each token contains the time of its creation; a socket records when a message first has it. All processes
share this machine and its clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from websockets.asyncio.client import connect
from websockets.typing import Origin

from benchmarks.figures import Figure
from benchmarks.serving import ROOT

APP = "streaming"
CONVERSATIONS = 6
"""Runs that stream at once, two for each worker."""

TOKENS = 100
"""Tokens of a run: its event is shown whole, so a last token that comes with the event counts, too."""

ROUNDS = 3
PAUSE = 0.05
"""Seconds between tokens: 20 a second are about as many as a model sends."""

BUDGET = 200.0
PATIENCE = 120.0
USER, PASSWORD = "ann", "a long password for ann"
MADE = re.compile(r"made(\d+\.\d+)")

AGENT = """import asyncio
import time

from google.adk.agents import BaseAgent
from google.adk.events.event import Event
from google.genai import types


class Streamer(BaseAgent):
    async def _run_async_impl(self, context):
        texts = []
        for _ in range({tokens}):
            await asyncio.sleep({pause})
            texts.append(f"made{{time.time():.6f}} ")
            yield self.event(context, texts[-1], partial=True)
        yield self.event(context, "".join(texts), partial=False)

    def event(self, context, text, partial):
        return Event(
            author=self.name,
            invocation_id=context.invocation_id,
            content=types.Content(role="model", parts=[types.Part(text=text)]),
            partial=partial,
        )


root_agent = Streamer(name="streamer")
"""


def agents(folder: Path) -> Path:
    """Write the agent that streams its times; return the agents folder."""
    (folder / APP).mkdir(parents=True)
    (folder / APP / "__init__.py").write_text("from . import agent\n")
    (folder / APP / "agent.py").write_text(AGENT.format(tokens=TOKENS, pause=PAUSE))
    return folder


@contextlib.contextmanager
def team(folder: Path) -> Iterator[list[str]]:
    """Start a team; yield the addresses of its web processes."""
    log = folder / "team.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                sys.executable,
                str(ROOT / "manage.py"),
                "team",
                str(agents(folder / "agents")),
                "--port",
                "8760",
            ],
            env={**os.environ, "DEVUI_DATA_DIR": str(folder / "data")},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        while not (line := re.search(r"The team serves on (.*)", log.read_text())):
            if process.poll() is not None:
                raise RuntimeError(log.read_text())
            time.sleep(0.1)
        yield re.findall(r"http://[\d.:]+", line[1])
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)


def create_user() -> None:
    """Create the user who runs and watches."""
    subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "createuser", USER, "--role", "runner"],
        input=f"{PASSWORD}\n",
        env={**os.environ, "DEVUI_USERS": "1"},
        text=True,
        check=True,
        stdout=subprocess.DEVNULL,
    )


def sign_in(url: str) -> httpx.Client:
    """Return a client that has signed in."""
    client = httpx.Client(base_url=url, timeout=PATIENCE, trust_env=False, headers={"Origin": url})
    form = {"name": USER, "password": PASSWORD}
    if client.post("/login/", data=form).status_code != 303:
        raise RuntimeError("The user cannot sign in.")
    return client


def new_session(client: httpx.Client) -> int:
    """Create a session; return its key."""
    made = client.post(f"/apps/{APP}/users/{USER}/sessions").raise_for_status().json()
    listed = client.get(f"/api/v1/sessions?app={APP}&limit=200").raise_for_status().json()
    return int(next(row["key"] for row in listed["sessions"] if row["id"] == made["id"]))


def start_run(client: httpx.Client, session: int) -> str:
    """Start a run that streams; return its id."""
    body = {"session": session, "message": "go", "streaming": True}
    return str(client.post("/api/v1/runs", json=body).raise_for_status().json()["id"])


async def watch(client: httpx.Client, session: int, opened: asyncio.Barrier) -> list[float]:
    """Return the milliseconds after which a socket has each token of a session's run."""
    url = str(client.base_url).rstrip("/")
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    delays: dict[str, float] = {}
    async with connect(
        f"ws{url.removeprefix('http')}/ws/sessions/{session}/?after=0",
        origin=Origin(url),
        additional_headers={"Cookie": cookie},
        proxy=None,
        max_size=None,
    ) as socket:
        await opened.wait()
        async for message in socket:
            now = time.time()
            for made in MADE.findall(str(message)):
                delays.setdefault(made, (now - float(made)) * 1_000)
            if len(delays) == TOKENS:
                break
    return list(delays.values())


async def measure(first: httpx.Client, second: httpx.Client) -> list[float]:
    """Run conversations at one web process and watch them at the other; return all delays."""
    sessions = [await asyncio.to_thread(new_session, first) for _ in range(CONVERSATIONS)]
    opened = asyncio.Barrier(CONVERSATIONS + 1)
    async with asyncio.timeout(PATIENCE):
        watchers = [asyncio.create_task(watch(second, session, opened)) for session in sessions]
        await opened.wait()
        for session in sessions:
            await asyncio.to_thread(start_run, first, session)
        return [delay for delays in await asyncio.gather(*watchers) for delay in delays]


def main() -> None:
    """Measure and print."""
    with team(Path(os.environ["BENCH_FOLDER"])) as (one, other):
        create_user()
        first, second = sign_in(one), sign_in(other)
        asyncio.run(measure(first, second))  # starts the agent's process at each worker
        delays = sorted(delay for _ in range(ROUNDS) for delay in asyncio.run(measure(first, second)))
    what = f"a token of {CONVERSATIONS} runs on workers at a socket of another web process"
    p99 = delays[int(len(delays) * 0.99)]
    print(Figure(f"{what}, 99 of 100", "ms", p99, BUDGET).as_line())
    print(Figure("… median", "ms", statistics.median(delays)).as_line())
    print(Figure("… worst", "ms", delays[-1]).as_line())


if __name__ == "__main__":
    main()
