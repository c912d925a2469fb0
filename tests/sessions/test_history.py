"""State at any event, in every scope, and the writer of each key."""

from __future__ import annotations

import pytest
from google.adk.sessions.session import Session

from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Scope, StateChange, UserScope
from sessions_app.store.models import Event as EventRow
from sessions_app.store.sessions import writes
from sessions_app.store.state import history as history
from tests.sessions.build import APP, OWNER, USER, append, create

KEY = writes.SessionKey("", APP, USER, "s1")


def state_at(session: Session, seq: int | None = None) -> dict:
    """Return the merged state of a session at an event, or now."""
    row = AgentSession.objects.get(session_id=session.id, user_id=session.user_id)
    event = EventRow.objects.get(session=row, seq=seq) if seq else None
    return history.state_at(row, event).merge_scopes()


async def test_state_at_an_event_has_all_writes_up_to_it(ours):
    session = await create(ours)
    for number in range(1, 4):
        await append(session, ours, {"n": number, f"only_{number}": True})
    assert await units_of_work.read(state_at, session, 1) == {"n": 1, "only_1": True}
    assert await units_of_work.read(state_at, session, 2) == {"n": 2, "only_1": True, "only_2": True}
    assert await units_of_work.read(state_at, session, 3) == await units_of_work.read(state_at, session)


async def test_the_initial_state_is_there_from_the_first_event_on(ours):
    session = await create(ours, state={"seed": 1, "app:a": 1, "user:u": 1})
    assert await units_of_work.read(state_at, session) == {"seed": 1, "app:a": 1, "user:u": 1}
    await append(session, ours, {"seed": 2})
    await append(session, ours, {"later": 3})
    assert await units_of_work.read(state_at, session, 1) == {"seed": 2, "app:a": 1, "user:u": 1}


async def test_foreign_writes_count_from_the_event_that_could_see_them(ours):
    session = await create(ours)
    other = await create(ours, "s2")
    theirs = await create(ours, "s3", user_id="bob")
    await append(session, ours, {"first": 1})
    await append(other, ours, {"user:name": "Ann", "app:theme": "dark"})
    await append(session, ours, {"second": 2})
    await append(theirs, ours, {"app:theme": "light", "user:name": "Bob"})
    assert await units_of_work.read(state_at, session, 1) == {"first": 1}
    seen_then = {"first": 1, "second": 2, "user:name": "Ann", "app:theme": "dark"}
    assert await units_of_work.read(state_at, session, 2) == seen_then
    assert await units_of_work.read(state_at, session) == {**seen_then, "app:theme": "light"}


async def test_an_event_sees_its_own_writes_to_shared_scopes(ours):
    session = await create(ours)
    await append(session, ours, {"app:n": 1, "user:n": 1})
    await append(session, ours, {"app:n": 2})
    assert await units_of_work.read(state_at, session, 1) == {"app:n": 1, "user:n": 1}
    assert await units_of_work.read(state_at, session, 2) == {"app:n": 2, "user:n": 1}


@pytest.mark.parametrize("name", ["k", "user:k", "app:k"])
async def test_removed_key_is_absent_afterwards_and_present_before(ours, name):
    session = await create(ours)
    await append(session, ours, {name: 1})
    await units_of_work.write(writes.edit_state, KEY, {"other": 2}, removed={name})
    assert await units_of_work.read(state_at, session, 1) == {name: 1}
    assert await units_of_work.read(state_at, session, 2) == {"other": 2}
    result = await ours.get_session(**OWNER, session_id="s1")
    assert result.state == {"other": 2}
    assert result.events[1].actions.state_delta == {"other": 2, name: None}
    await append(result, ours, {name: 3})
    assert await units_of_work.read(state_at, result, 3) == {name: 3, "other": 2}


async def test_a_key_that_is_none_is_there(ours):
    session = await create(ours)
    await append(session, ours, {"k": None})
    assert await units_of_work.read(state_at, session, 1) == {"k": None}


async def test_each_scope_can_be_had_alone(ours):
    session = await create(ours, state={"k": 1, "user:k": 2, "app:k": 3})
    row = await units_of_work.read(AgentSession.objects.get)
    then = await units_of_work.read(history.state_at, row)
    assert [then.values(scope) for scope in (Scope.SESSION, Scope.USER, Scope.APP)] == [
        {"k": 1},
        {"k": 2},
        {"k": 3},
    ]
    assert session.state == then.merge_scopes()


async def test_shared_state_outlives_the_session_that_wrote_it(ours):
    await create(ours, state={"user:name": "Ann", "own": 1})
    await ours.delete_session(**OWNER, session_id="s1")
    again = await create(ours, "s2")
    assert await units_of_work.read(state_at, again) == {"user:name": "Ann"}
    change = await units_of_work.read(StateChange.objects.get)
    assert (change.session_id, change.from_session, change.from_user) == (None, "s1", USER)


def history_of(name: str, scope: Scope = Scope.SESSION) -> list[StateChange]:
    """Return every write of a key, oldest first, asked for by the newest one's owner."""
    newest = StateChange.objects.filter(scope=scope, key=name).order_by("-position")[0]
    return list(reversed(history.read_key_writes(scope, newest.owner_id, name)))


async def test_the_history_of_a_shared_key_crosses_sessions_and_names_each(ours):
    session, other = await create(ours), await create(ours, "s2", state={"user:n": 0})
    await append(session, ours, {"user:n": 1}, author="left", invocation_id="i1")
    await append(other, ours, {"user:n": 2}, author="right", invocation_id="i2")
    await append(session, ours, {"unrelated": 1})
    rows = await units_of_work.read(history_of, "n", Scope.USER)
    writes = [(row.value, row.cause, row.from_session, row.author, row.invocation_id) for row in rows]
    assert writes == [
        ("0", "seed", "s2", "", ""),
        ("1", "append", "s1", "left", "i1"),
        ("2", "append", "s2", "right", "i2"),
    ]


async def test_session_without_shared_state_has_its_own(ours):
    session = await create(ours)
    await append(session, ours, {"k": 1})
    assert await units_of_work.read(UserScope.objects.count) == 0
    assert await units_of_work.read(state_at, session, 1) == {"k": 1}


async def test_state_of_many_keys_and_writes_is_correct_per_key(ours):
    session = await create(ours)
    for number in range(30):
        await append(session, ours, {f"k{number % 7}": number, "user:n": number})
    expected = {f"k{number % 7}": number for number in range(20)}
    assert await units_of_work.read(state_at, session, 20) == {**expected, "user:n": 19}


def test_state_with_more_keys_than_a_statement_allows_is_chunked(db: None):
    wide = {f"k{number:04}": number for number in range(2 * history.CHUNK + 1)}
    session = writes.create_session(writes.SessionKey("", APP, USER, "wide"), wide)
    state = history.state_at(session).session
    assert [(row.key, row.value) for row in state] == [(key, str(number)) for key, number in wide.items()]
