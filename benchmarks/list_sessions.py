"""`list_sessions` of an app with 2,000 sessions of 50 users, with their merged state."""

from __future__ import annotations

import asyncio

from google.adk.sessions.base_session_service import BaseSessionService

from benchmarks.figures import Figure
from benchmarks.stores import APP, median_of, missing_peers, ours, peers

SESSIONS = 2000
USERS = 50


async def list_time(service: BaseSessionService) -> float:
    """Return the median of listing all of them, in milliseconds."""
    for number in range(SESSIONS):
        await service.create_session(
            app_name=APP,
            user_id=f"user{number % USERS}",
            session_id=f"s{number}",
            state={"turn": number, "topic": "weather", "user:last": number, "app:total": number},
        )

    async def listed(_: int) -> None:
        found = await service.list_sessions(app_name=APP)
        assert len(found.sessions) == SESSIONS

    return await median_of(listed, 5, warm_up=1)


async def main() -> None:
    """Measure and print."""
    what = f"list_sessions, {SESSIONS:,} sessions"
    own = await list_time(ours())
    found = peers()
    for name, peer in found.items():
        print(Figure(what, "ms", own, None, await list_time(peer), name).as_line())
    if "DatabaseSessionService" not in found:
        print(Figure(what, "ms", own, None, None, missing_peers()).as_line())


if __name__ == "__main__":
    asyncio.run(main())
