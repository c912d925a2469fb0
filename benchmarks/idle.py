"""Processor time of an idle server without an open page, and of an idle runtime, in percent of a processor.

Reads `/proc`, so it needs Linux. Both servers are measured at the same time, so that both have the same load.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import httpx

from benchmarks.figures import Figure
from benchmarks.serving import ADK_WEB, OURS, server, server_pid

APP = "weather"
SETTLE_S = 20.0
"""Seconds after the first run until a server has imported and indexed everything."""

MEASURE_S = 60.0
WEB_PERCENT, RUNTIME_PERCENT = 0.3, 0.2


def start_runtime(address: str) -> None:
    """Run the agent once; its process stays."""
    message = {"role": "user", "parts": [{"text": "hello"}]}
    ids = {"appName": APP, "userId": "idle", "sessionId": "idle"}
    with httpx.Client(base_url=address, timeout=120, trust_env=False) as client:
        client.post(f"/apps/{APP}/users/idle/sessions", json={"sessionId": "idle"}).raise_for_status()
        client.post("/run", json={**ids, "newMessage": message}).raise_for_status()


def runtime_pid(parent_pid: int) -> int:
    """Return the pid of the only child of a web process."""
    [pid] = [
        int(child)
        for task in Path(f"/proc/{parent_pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]
    return pid


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used. It has a resolution of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    with server(OURS) as (address, _), server(ADK_WEB, "/dev-ui/") as (peer_address, _):
        start_runtime(address)
        web, peer = server_pid(address), server_pid(peer_address)
        pids = (web, runtime_pid(web), peer)
        time.sleep(SETTLE_S)
        before = [processor_seconds(pid) for pid in pids]
        time.sleep(MEASURE_S)
        used = [processor_seconds(pid) - seconds for pid, seconds in zip(pids, before, strict=True)]
    ours, runtime, theirs = (100 * seconds / MEASURE_S for seconds in used)
    print(Figure("idle web process (processor time)", "%", ours, WEB_PERCENT, theirs, "adk web").as_line())
    print(Figure("idle runtime (processor time)", "%", runtime, RUNTIME_PERCENT).as_line())


if __name__ == "__main__":
    main()
