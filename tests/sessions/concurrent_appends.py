"""Processes that append concurrently to one session and to their own, and report each result.

python -m tests.sessions.concurrent_appends DATABASE_URL PROCESSES TASKS TURNS
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from typing import Any

import devui

OWNER = {"app_name": "weather", "user_id": "ann"}
SHARED = "shared"


def main(url: str, processes: int, tasks: int, turns: int) -> int:
    """Fork the processes before anything connects; return how many failed."""
    devui.setup(url, migrate=False)
    import sessions_app.adk  # noqa: F401 - warms every fork

    pids = []
    for number in range(processes):
        if (pid := os.fork()) == 0:
            try:
                asyncio.run(contend(f"p{number}", tasks, turns))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        pids.append(pid)
    return sum(os.waitpid(pid, 0)[1] != 0 for pid in pids)


async def contend(name: str, tasks: int, turns: int) -> None:
    """Append from several tasks to the shared session and to sessions of their own."""
    from sessions_app.adk import DjangoSessionService

    service = DjangoSessionService()
    own = [await service.create_session(**OWNER, session_id=f"{name}-{task}") for task in range(tasks)]
    await asyncio.gather(
        *(count(service, turns) for _ in range(tasks)),
        *(append(service, session, turns) for session in own),
    )


async def count(service: Any, turns: int) -> None:
    """Add one to what the shared session holds, so often. A stale copy is read again."""
    from google.adk.errors import StaleSessionError

    from tests.sessions.build import event

    for _ in range(turns):
        while True:
            session = await service.get_session(**OWNER, session_id=SHARED)
            try:
                await service.append_event(
                    session, event(delta={"n": session.state["n"] + 1, "user:by": "count"})
                )
            except StaleSessionError:
                continue
            break


async def append(service: Any, session: Any, turns: int) -> None:
    """Write the same keys of every scope as the others, in one order and then in the other."""
    from tests.sessions.build import event

    keys = ["n", "user:n", "user:m", "app:n", "app:m"]
    for turn in range(turns):
        keys.reverse()
        await service.append_event(session, event(delta=dict.fromkeys(keys, turn)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
