"""`get_session` of a session of 10,000 events: the first read, and the reads of later turns in a runtime."""

from __future__ import annotations

import asyncio
import statistics
import time

from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session

from benchmarks.figures import Figure
from benchmarks.stores import (
    APP,
    FILLERS,
    USER,
    event,
    fill_ours,
    missing_peers,
    ours,
    peers,
    session_of,
)
from sessions_app.adk import DjangoSessionService
from sessions_app.adk.prefetch import Prefetcher

EVENTS = 10_000
TURNS = 5


async def read(service: BaseSessionService) -> tuple[Session, float]:
    """Return the long session, and the duration of reading it in milliseconds."""
    start = time.perf_counter()
    session = await service.get_session(app_name=APP, user_id=USER, session_id="big")
    duration = (time.perf_counter() - start) * 1000
    assert session is not None
    assert len(session.events) >= EVENTS
    return session, duration


async def cold_time(service: BaseSessionService) -> float:
    """Return the duration of the first read, in milliseconds."""
    return (await read(service))[1]


async def next_turn_time() -> float:
    """Return the median of the reads at the start of later turns, in milliseconds."""
    prefetcher = Prefetcher(delay=0)
    service = DjangoSessionService(prefetcher=prefetcher)
    session, _ = await read(service)
    times = []
    for _ in range(TURNS):
        for number in range(2):
            await service.append_event(session, event(number))
        await prefetcher.wait_for_copies()
        session, duration = await read(service)
        times.append(duration)
    return statistics.median(times)


async def main() -> None:
    """Measure and print."""
    events = [event(number) for number in range(EVENTS)]
    own = ours()
    await session_of(own, "big")
    await asyncio.to_thread(fill_ours, "big", events)
    first = await cold_time(own)
    what = f"get_session, {EVENTS:,} events, first read"
    next_turn = await next_turn_time()
    peer_services = peers()
    for name, peer in peer_services.items():
        await session_of(peer, "big")
        await asyncio.to_thread(FILLERS[name], "big", events)
        print(Figure(what, "ms", first, 500, await cold_time(peer), name).as_line())
        next_turn_label = "the next turn, two events later, in a runtime"
        print(Figure(f"… {next_turn_label}", "ms", next_turn, 20, await cold_time(peer), name).as_line())
    if "DatabaseSessionService" not in peer_services:
        print(Figure(what, "ms", first, 500, None, missing_peers()).as_line())


if __name__ == "__main__":
    asyncio.run(main())
