"""`append_event`, one after the other: in a new session, in a long one, and beside a large state."""

from __future__ import annotations

import asyncio

from google.adk.sessions.base_session_service import BaseSessionService

from benchmarks.figures import Figure
from benchmarks.stores import (
    APP,
    ON_POSTGRES,
    USER,
    event,
    fill_ours,
    median_of,
    missing_peers,
    ours,
    peers,
    session_of,
)

TURNS = 300
HISTORY = 10_000
STATE_BYTES = 1_000_000
BUDGET = None if ON_POSTGRES else 1.0


async def append_time(service: BaseSessionService, name: str, **given: object) -> float:
    """Return the median of an append to a new session, in milliseconds."""
    session = await session_of(service, name, **given)
    return await median_of(lambda turn: service.append_event(session, event(turn)), TURNS, warm_up=20)


async def long_history_time() -> float:
    """Return the median of an append to a session that has many events."""
    service = ours()
    await session_of(service, "long")
    await asyncio.to_thread(fill_ours, "long", map(event, range(HISTORY)))
    session = await service.get_session(app_name=APP, user_id=USER, session_id="long")
    assert session is not None
    return await median_of(lambda turn: service.append_event(session, event(turn)), TURNS, warm_up=20)


async def main() -> None:
    """Measure and print."""
    what = "append_event, median"
    plain = await append_time(ours(), "plain")
    found = peers()
    for name, peer in found.items():
        time = await append_time(peer, "plain")
        print(Figure(what, "ms", plain, BUDGET, time, name).as_line())
    if "DatabaseSessionService" not in found:
        print(Figure(what, "ms", plain, BUDGET, None, missing_peers()).as_line())
    print(Figure(f"{what}, after {HISTORY:,} events", "ms", await long_history_time(), BUDGET).as_line())
    state = {f"k{number}": "x" * 1000 for number in range(STATE_BYTES // 1000)}
    large = await append_time(ours(), "large", state=state)
    peer_name, peer = next(iter(found.items()), ("", None))
    peer_large = await append_time(peer, "large", state=state) if peer else None
    print(Figure(f"{what}, state of 1 MB", "ms", large, BUDGET, peer_large, peer_name).as_line())


if __name__ == "__main__":
    asyncio.run(main())
