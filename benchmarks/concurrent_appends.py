"""Concurrent appends: 20 each to 50 sessions of one user, every one to the user's and the app's state, too."""

from __future__ import annotations

import asyncio
import time

from google.adk.sessions.base_session_service import BaseSessionService

from benchmarks.figures import Figure
from benchmarks.stores import ON_POSTGRES, event, missing_peers, ours, peers, session_of

SESSIONS = 50
APPENDS = 20
BUDGET = 1000
TIMES = 4
"""Least rate as a multiple of the peer's, on PostgreSQL."""


async def rate(service: BaseSessionService) -> tuple[float, int]:
    """Return the stored appends per second, and the number that the database refused."""
    refused = 0
    sessions = [await session_of(service, f"c{number}") for number in range(SESSIONS)]

    async def turn_by_turn(number: int) -> None:
        nonlocal refused
        for turn in range(APPENDS):
            try:
                await service.append_event(sessions[number], event(turn))
            except Exception as error:  # sqlite3's, or SQLAlchemy's around it
                if "database is locked" not in str(error):
                    raise
                refused += 1

    start = time.perf_counter()
    await asyncio.gather(*map(turn_by_turn, range(SESSIONS)))
    return (SESSIONS * APPENDS - refused) / (time.perf_counter() - start), refused


async def main() -> None:
    """Measure and print."""
    what = f"{SESSIONS} sessions x {APPENDS} concurrent appends that share user: and app: keys"
    own, _ = await rate(ours())
    peer_services = peers()
    for name, peer in peer_services.items():
        peers_rate, refused = await rate(peer)
        peer_label = f"{name}, {refused} refused: database is locked" if refused else name
        budget = max(BUDGET, TIMES * peers_rate) if ON_POSTGRES else BUDGET
        print(Figure(what, "/s", own, budget, peers_rate, peer_label, more_is_better=True).as_line())
    if "DatabaseSessionService" not in peer_services:
        print(Figure(what, "/s", own, BUDGET, None, missing_peers(), more_is_better=True).as_line())


if __name__ == "__main__":
    asyncio.run(main())
