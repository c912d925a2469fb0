"""Every way to change state writes a ledger row with its cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessions_app.state.key_changes import read_key_changes
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession
from sessions_app.store.state import drift
from sessions_app.store.state.drift import DriftCause
from sessions_app.transfer.readers.detection import open_source
from sessions_app.transfer.writers import import_sessions
from tests.api.builders import append
from tests.importers.stores import an_event, delta, sqlite_store

SESSIONS = "/apps/weather/users/ann/sessions"
NAMES = ["n", "user:n", "app:n"]


async def the_session(session_id: str = "s1") -> AgentSession:
    return await units_of_work.read(lambda: AgentSession.objects.get(session_id=session_id))


async def history(web: Any, session: AgentSession, name: str) -> list[tuple[Any, str, int]]:
    """Return (value or "removed", cause, seq) of each write of a key, newest first."""
    answer = await web.get(f"/api/v1/sessions/{session.pk}/state/history", params={"key": name})
    changes = answer.json()["changes"]
    return [("removed" if c["removed"] else c["value"], c["cause"], c["seq"]) for c in changes]


async def old_and_new(session: AgentSession, seq: int) -> list[tuple[str, str | None, str | None]]:
    """Return (key, old, new) as the timeline shows an event."""
    event = await units_of_work.read(session.events.get, seq=seq)
    changes = await units_of_work.read(read_key_changes, session, [event])
    return [(change.name, change.old, change.new) for change in changes[seq]]


@pytest.mark.parametrize("name", NAMES)
async def test_a_seed_is_the_old_value_of_the_first_event(web, name):
    await web.post(f"{SESSIONS}", json={"sessionId": "s1", "state": {name: 0}})
    session = await the_session()
    await append(session, "e1", {name: 1})
    assert await history(web, session, name) == [(1, "append", 1), (0, "seed", 0)]
    assert await old_and_new(session, 1) == [(name, "0", "1")]


@pytest.mark.parametrize("name", NAMES)
async def test_a_patch_is_an_edit_with_its_event(web, name):
    await web.post(f"{SESSIONS}", json={"sessionId": "s1", "state": {name: 0}})
    session = await the_session()
    patched = await web.patch(f"{SESSIONS}/s1", json={"stateDelta": {name: 1, "temp:t": 2}})
    assert patched.status_code == 200
    await append(session, "e2", {name: 2})
    assert await history(web, session, name) == [(2, "append", 2), (1, "edit", 1), (0, "seed", 0)]
    assert await old_and_new(session, 1) == [(name, "0", "1")]
    assert await old_and_new(session, 2) == [(name, "1", "2")]


@pytest.mark.parametrize("name", NAMES)
async def test_a_removal_and_a_new_value_are_entries(web, name):
    await web.post(f"{SESSIONS}", json={"sessionId": "s1", "state": {name: 0}})
    session = await the_session()
    key = {"key": name}
    assert (await web.delete(f"/api/v1/sessions/{session.pk}/state/key", params=key)).status_code == 200
    assert (
        await web.put(f"/api/v1/sessions/{session.pk}/state/key", params=key, json={"value": 3})
    ).status_code == 201
    assert await history(web, session, name) == [(3, "edit", 2), ("removed", "edit", 1), (0, "seed", 0)]
    assert await old_and_new(session, 1) == [(name, "0", None)]
    assert await old_and_new(session, 2) == [(name, None, "3")]


def import_from(store: Path) -> None:
    source = open_source(str(store))
    try:
        import_sessions(source)
    finally:
        source.close()


async def test_import_causes_name_events_and_unexplained_values(web, tmp_path):
    events = [an_event(1, **delta(n=1)), an_event(2, "more", **delta(n=2))]
    store = sqlite_store(tmp_path / "s.db", *events, state={"n": 2, "seed": 7})
    await units_of_work.write(import_from, store)
    session = await the_session()
    assert await history(web, session, "n") == [(2, "import", 2), (1, "import", 1)]
    assert await history(web, session, "seed") == [(7, "import", 0)]
    assert await old_and_new(session, 2) == [("n", "1", "2")]
    report = await units_of_work.read(drift.find_drift, session)
    assert report.drifts == []
    assert [(entry.key, entry.why) for entry in report.explained_drifts] == [("seed", DriftCause.IMPORT)]
    await append(session, "here", {"n": 3, "seed": 8})
    assert await old_and_new(session, 3) == [("n", "2", "3"), ("seed", "7", "8")]


async def test_import_that_corrects_a_value_has_cause(web, tmp_path):
    store = sqlite_store(tmp_path / "s.db", an_event(1, **delta(n=1)), state={"n": 5})
    await units_of_work.write(import_from, store)
    session = await the_session()
    assert await history(web, session, "n") == [(5, "import", 0), (1, "import", 1)]
    [entry] = (await units_of_work.read(drift.find_drift, session)).drifts
    assert (entry.key, entry.stored, entry.folded, entry.why) == ("n", "5", "1", DriftCause.IMPORT)


async def test_recreated_session_has_only_user_and_app_history(web):
    for turn in (1, 2):
        await web.post(f"{SESSIONS}", json={"sessionId": "s1", "state": dict.fromkeys(NAMES, turn)})
        session = await the_session()
        await append(session, "e1", dict.fromkeys(NAMES, turn * 10))
        if turn == 1:
            assert (await web.delete(f"{SESSIONS}/s1")).status_code == 200
    assert await history(web, session, "n") == [(20, "append", 1), (2, "seed", 0)]
    for name in ("user:n", "app:n"):
        assert await history(web, session, name) == [
            (20, "append", 1),
            (2, "seed", 0),
            (10, "append", 1),
            (1, "seed", 0),
        ]
    answer = await web.get(
        f"/api/v1/sessions/{session.pk}/state/history", params={"key": "user:n", "here": "true"}
    )
    assert [change["value"] for change in answer.json()["changes"]] == [20, 2]
