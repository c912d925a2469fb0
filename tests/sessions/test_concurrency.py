"""Concurrent writers, each on its own connection."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from google.adk.errors import StaleSessionError

from sessions_app.store import events
from sessions_app.store.errors import StaleSession
from sessions_app.store.models import AgentSession, StateChange
from sessions_app.store.models import Event as EventRow
from sessions_app.store.sessions import writes
from sessions_app.store.state import history as history
from tests.sessions.build import APP, append, create, event, get
from tests.sessions.concurrency import run_together

WRITERS = 4


def session_key(name: str, user: str = "ann") -> writes.SessionKey:
    return writes.SessionKey("", APP, user, name)


def record(delta: dict[str, Any]) -> events.EventRecord:
    body = {"id": uuid.uuid4().hex, "invocationId": "i", "author": "agent", "timestamp": 1.0, "actions": {}}
    return events.build_record(body, delta=delta)


def test_appends_of_same_keys_in_opposite_order_never_deadlock(store):
    keys = [f"{prefix}{name}" for prefix in ("app:", "user:", "") for name in "abcd"]

    def writer(number: int) -> Callable[[], None]:
        ordered = keys if number % 2 else keys[::-1]

        def work() -> None:
            for turn in range(15):
                writes.append_event(session_key(f"s{number}"), record(dict.fromkeys(ordered, turn)))

        return work

    for number in range(WRITERS):
        writes.create_session(session_key(f"s{number}"))
    assert run_together(map(writer, range(WRITERS))) == [None] * WRITERS
    assert EventRow.objects.count() == WRITERS * 15
    versions = StateChange.objects.filter(scope="app", key="a").order_by("position")
    assert [row.position for row in versions] == list(range(1, WRITERS * 15 + 1))


def test_scope_first_written_concurrently_is_created_once(store):
    def writer(number: int) -> Callable[[], Any]:
        key = session_key(f"s{number}", user=f"user{number % 2}")
        return lambda: writes.create_session(key, {"app:n": number, "user:n": number}).pk

    pks = run_together(map(writer, range(WRITERS)))
    assert len(set(pks)) == WRITERS
    assert StateChange.objects.filter(scope="app").order_by("-position").first().position == WRITERS


def test_exactly_one_of_many_equal_copies_wins(store):
    writes.create_session(session_key("s1"))
    expected = writes.ExpectedSession(revision=0)

    def attempt() -> Any:
        return writes.append_event(session_key("s1"), record({"n": 1}), expected)

    outcomes = run_together([attempt] * WRITERS)
    assert sum(isinstance(outcome, writes.AppendResult) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, StaleSession) for outcome in outcomes) == WRITERS - 1
    assert EventRow.objects.count() == 1


async def test_exactly_one_of_stale_copies_in_a_process_wins(ours):
    await create(ours, state={"n": 0})
    copies = [await get(ours) for _ in range(6)]
    tries = [append(copy, ours, {"n": number}) for number, copy in enumerate(copies)]
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(outcome, StaleSessionError) for outcome in outcomes) == 5
    session = await get(ours)
    assert len(session.events) == 1
    [winner] = [copy for copy in copies if copy.events]
    assert winner.state == session.state


async def test_refused_append_leaves_copy_and_event_unchanged(ours):
    await create(ours)
    stale = await get(ours)
    await append(await get(ours), ours, {"n": 1})
    before = stale.model_copy(deep=True)
    new_event = event("late", {"n": 2, "temp:t": 3})
    with pytest.raises(StaleSessionError):
        await ours.append_event(stale, new_event)
    assert stale == before
    assert new_event.actions.state_delta == {"n": 2, "temp:t": 3}


async def test_cancelled_append_is_known_to_the_callers_copy(ours):
    """ADK appends its abort marker to the same copy right after."""
    session = await create(ours)
    task = asyncio.ensure_future(append(session, ours, {"n": 1}))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await append(session, ours, {"n": 2})
    stored_session = await get(ours)
    assert stored_session == session
    assert len(stored_session.events) == 2


def test_appends_without_comparison_are_stored_in_order_without_gaps(store):
    writes.create_session(session_key("s1"))

    def work() -> None:
        for _ in range(10):
            writes.append_event(session_key("s1"), record({"n": 1, "app:n": 1}))

    assert run_together([work] * WRITERS) == [None] * WRITERS
    assert list(EventRow.objects.order_by("seq").values_list("seq", flat=True)) == list(range(1, 41))
    session = AgentSession.objects.get()
    assert (session.revision, session.last_seq) == (40, 40)


def test_session_deleted_during_appends_leaves_no_rows(store):
    for turn in range(5):
        key = session_key(f"s{turn}")
        writes.create_session(key)

        def work(key: writes.SessionKey = key) -> None:
            for _ in range(10):
                writes.append_event(key, record({"n": 1}))

        def delete(key: writes.SessionKey = key) -> Any:
            return writes.delete_session(key)

        outcomes = run_together([work, work, delete])
        assert outcomes[2] is True
    assert not AgentSession.objects.exists()
    assert not EventRow.objects.exists()
    assert not StateChange.objects.filter(scope="session").exists()


def test_a_reader_never_sees_half_an_append(store):
    """An event and its state are there together or not at all."""
    writes.create_session(session_key("s1"), {"n": 0})

    def write() -> None:
        for number in range(1, 31):
            writes.append_event(session_key("s1"), record({"n": number, "copy": number}))

    def read() -> list[dict[str, Any]]:
        states = []
        for _ in range(30):
            session = AgentSession.objects.get()
            event = EventRow.objects.filter(session=session, seq=session.last_seq).first()
            if event is not None:
                states.append({"seq": event.seq} | history.state_at(session, event).merge_scopes())
        return states

    _, states = run_together([write, read])
    assert all(state["n"] == state["copy"] == state["seq"] for state in states)
