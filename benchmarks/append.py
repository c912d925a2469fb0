"""Sequential `append_event`: in a new session, a long one, beside a large state, and with the recorder."""

from __future__ import annotations

import asyncio

from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.session import Session

from benchmarks import recorded_run
from benchmarks.figures import Figure
from benchmarks.stores import (
    APP,
    FULL,
    ON_POSTGRES,
    USER,
    event,
    long_session,
    median_of,
    missing_peers,
    ours,
    peers,
    session_of,
)

TURNS = 300
WARM_UP = 20
HISTORY = 1_000_000 if FULL else 10_000
STATE_KB = 1000
LARGE_STATE_KB = 10_000
BUDGET = None if ON_POSTGRES else 1.0


async def append_time(service: BaseSessionService, name: str, **options: object) -> float:
    """Return the median of an append to a new session, in milliseconds."""
    return await time_on(service, await session_of(service, name, **options))


async def time_on(service: BaseSessionService, session: Session) -> float:
    """Return the median of an append to a session. Its events are created before, as an agent has them anyway."""
    events = [event(turn) for turn in range(TURNS + WARM_UP)]
    return await median_of(lambda _: service.append_event(session, events.pop()), TURNS, warm_up=WARM_UP)


async def long_history_time() -> float:
    """Return the median of an append to a session with many events."""
    service = ours()
    await asyncio.to_thread(long_session, "long", HISTORY)
    session = await service.get_session(
        app_name=APP, user_id=USER, session_id="long", config=GetSessionConfig(num_recent_events=10)
    )
    assert session is not None
    return await time_on(service, session)


def state_of(size: int) -> dict[str, str]:
    """Return a state of that many keys of one kilobyte."""
    return {f"k{number}": "x" * 1000 for number in range(size)}


async def main() -> None:
    """Measure and print."""
    what = "append_event, median"
    plain = await append_time(ours(), "plain")
    peer_services = peers()
    for name, peer in peer_services.items():
        time = await append_time(peer, "plain")
        print(Figure(what, "ms", plain, BUDGET, time, name).as_line())
    if "DatabaseSessionService" not in peer_services:
        print(Figure(what, "ms", plain, BUDGET, None, missing_peers()).as_line())
    print(Figure(f"{what}, after {HISTORY:,} events", "ms", await long_history_time(), BUDGET).as_line())
    large = await append_time(ours(), "large", state=state_of(STATE_KB))
    peer_name = next(iter(peer_services), "")
    peer_large = (
        await append_time(peer_services[peer_name], "large", state=state_of(STATE_KB)) if peer_name else None
    )
    print(Figure(f"{what}, state of 1 MB", "ms", large, BUDGET, peer_large, peer_name).as_line())
    larger = await append_time(ours(), "larger", state=state_of(LARGE_STATE_KB))
    print(Figure(f"{what}, state of 10 MB", "ms", larger, BUDGET).as_line())
    for figure in await recorded_run.rows():
        print(figure.as_line())


if __name__ == "__main__":
    asyncio.run(main())
