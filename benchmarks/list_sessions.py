"""`list_sessions` with merged state: 2,000 sessions of one user with 2 KB each, and 2,000 of 50 users with little."""

from __future__ import annotations

import asyncio
from typing import Any

from google.adk.sessions.base_session_service import BaseSessionService

from benchmarks.figures import Figure
from benchmarks.stores import APP, ON_POSTGRES, median_of, missing_peers, ours, peers

SESSIONS = 2000
USERS = 50
STATE = {f"k{number}": "x" * 500 for number in range(4)}
"""2 KB."""

SHARE = 0.5
"""Longest time as a share of the peer's, on SQLite."""


async def list_time(service: BaseSessionService, app: str, users: int, state: dict[str, Any]) -> float:
    """Return the median of listing all sessions, in milliseconds."""
    for number in range(SESSIONS):
        await service.create_session(
            app_name=app, user_id=f"user{number % users}", session_id=f"s{number}", state=state
        )

    async def list_all(_: int) -> None:
        response = await service.list_sessions(app_name=app, user_id="user0" if users == 1 else None)
        assert len(response.sessions) == SESSIONS

    return await median_of(list_all, 15, warm_up=2)


async def main() -> None:
    """Measure and print."""
    peer_services = peers()
    for users, state, of in (
        (1, STATE, "with 2 KB each, one user"),
        (USERS, {"turn": 1, "topic": "weather", "user:last": 2, "app:total": 3}, f"{USERS} users"),
    ):
        what, app = f"list_sessions, {SESSIONS:,} sessions {of}", f"{APP}-{users}"
        own = await list_time(ours(), app, users, state)
        for name, peer in peer_services.items():
            times = await list_time(peer, app, users, state)
            budget = (
                SHARE * times if users == 1 and not ON_POSTGRES and name == "SqliteSessionService" else None
            )
            print(Figure(what, "ms", own, budget, times, name).as_line())
        if "DatabaseSessionService" not in peer_services:
            print(Figure(what, "ms", own, None, None, missing_peers()).as_line())


if __name__ == "__main__":
    asyncio.run(main())
