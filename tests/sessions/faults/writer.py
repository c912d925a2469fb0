"""A warm process that forks writers, so that a test can kill many without starting Python for each.

It is told on stdin: `write` forks a writer and answers `pid N`; `reap N` waits for its end and answers `gone N`. A
writer appends to its sessions until it is killed, and says `ack SESSION EVENT` once an append has returned.
"""

from __future__ import annotations

import asyncio
import os
import sys

import devui

SESSIONS = ("s0", "s1", "s2")
OWNER = {"app_name": "weather", "user_id": "ann"}
SEED = {"seed": 1, "user:seed": 2, "app:seed": 3}


def main() -> None:
    """Serve until stdin ends. Nothing here may connect to the store: a fork would share the connection."""
    devui.setup(migrate=False)
    import sessions_app.adk  # noqa: F401 - warms every fork

    say("ready")
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        if command == "write":
            if (pid := os.fork()) == 0:
                asyncio.run(write())
            say(f"pid {pid}")
        elif command == "reap":
            os.waitpid(int(argument), 0)
            say(f"gone {argument}")


def say(line: str) -> None:
    """Write a line whole: short lines to a pipe never mix."""
    os.write(1, f"{line}\n".encode())


async def write() -> None:
    """Append to all sessions at once, for ever."""
    from sessions_app.adk import DjangoSessionService

    service = DjangoSessionService()
    await asyncio.gather(*(append(service, session_id) for session_id in SESSIONS))


async def append(service, session_id: str) -> None:
    from google.adk.sessions.base_session_service import GetSessionConfig

    from tests.sessions.build import event

    config = GetSessionConfig(num_recent_events=1)
    session = await service.get_session(**OWNER, session_id=session_id, config=config)
    if session is None:
        session = await service.create_session(**OWNER, session_id=session_id, state=SEED)
    turn = session.state.get("turn", 0)
    while True:
        turn += 1
        delta = {
            "turn": turn,
            f"k{turn % 5}": "x" * (turn % 7) * 500,
            "user:turn": turn,
            "user:by": session_id,
        }
        if turn % 2:
            delta |= {"app:turn": turn, "app:by": session_id}
        stored = await service.append_event(session, event("y" * (turn % 9) * 300, delta))
        say(f"ack {session_id} {stored.id}")


if __name__ == "__main__":
    main()
