"""Cost of a REST `GET` of a session of 10,000 events before it is sent."""

from __future__ import annotations

import asyncio

from google.adk.auth.auth_credential import _redact_credential_secrets
from google.adk.events._internal_metadata import public_session

from benchmarks.figures import Figure
from benchmarks.stores import (
    APP,
    ON_POSTGRES,
    USER,
    as_json,
    event,
    fill_ours,
    fill_sqlite_peer,
    median_of,
    ours,
    peers,
    session_of,
)
from sessions_app.api import snapshots
from sessions_app.store.database import units_of_work

EVENTS = 10_000


async def own_response(_: int) -> int:
    """Join the response from the stored texts; return its length."""
    snapshot = await units_of_work.read(snapshots.take_snapshot, APP, USER, "big")
    return sum([len(text) async for text in snapshots.stream_json(snapshot)])


async def peers_response(_: int) -> int:
    """Build the response like ADK's server (`cli/api_server.py`), over its own store; return its length."""
    session = await peers()["SqliteSessionService"].get_session(app_name=APP, user_id=USER, session_id="big")
    assert session is not None
    body = public_session(session).model_dump(mode="json", by_alias=True, exclude_none=True)
    return len(as_json(_redact_credential_secrets(body)))


async def main() -> None:
    """Measure and print."""
    events = [event(number) for number in range(EVENTS)]
    await session_of(ours(), "big")
    await asyncio.to_thread(fill_ours, "big", events)
    what = f"REST GET of {EVENTS:,} events, response body built"
    time = await median_of(own_response, 5, warm_up=1)
    if ON_POSTGRES:
        print(Figure(what, "ms", time, 100).as_line())
        return
    peer = peers()["SqliteSessionService"]
    await session_of(peer, "big")
    fill_sqlite_peer("big", events)
    print(Figure(what, "ms", time, 100, await median_of(peers_response, 3), "adk web's own steps").as_line())


if __name__ == "__main__":
    asyncio.run(main())
