"""Conformance of `append_event`: identity, refusals, revisions."""

from __future__ import annotations

import asyncio

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session

from sessions_app.adk import _adk
from tests.sessions.build import APP, OWNER, USER, append, create, event, get


async def test_the_event_that_was_appended_is_returned_itself(service):
    """Statement 45."""
    new_event = event("hello", {"a": 1})
    assert await service.append_event(await create(service), new_event) is new_event


async def test_a_partial_event_is_passed_through_and_leaves_no_trace(service):
    """Statement 46."""
    session = await create(service)
    chunk = event("hel", {"a": 1, "temp:b": 2}, partial=True)
    before = chunk.model_copy(deep=True)
    assert await service.append_event(session, chunk) is chunk
    assert chunk == before
    assert (session.events, session.state) == ([], {})
    stored_session = await get(service)
    assert (stored_session.events, stored_session.state) == ([], {})


async def test_partial_event_of_unknown_session_is_returned(service):
    """Statement 46."""
    chunk = event("hel", partial=True)
    unknown = Session(app_name=APP, user_id=USER, id="never was")
    assert await service.append_event(unknown, chunk) is chunk


async def test_an_unknown_session_is_refused(service):
    """Statement 47."""
    unknown = Session(app_name=APP, user_id=USER, id="never was")
    with pytest.raises(SessionNotFoundError, match="never was not found"):
        await append(unknown, service, {"app:theme": "dark", "user:name": "Ann"})
    assert (await create(service)).state == {}


async def test_a_deleted_session_is_refused(service):
    """Statement 47."""
    session = await create(service)
    await service.delete_session(**OWNER, session_id="s1")
    with pytest.raises(ValueError, match="not found"):
        await append(session, service, {"own": 1})


async def test_the_callers_copy_gets_the_event(service):
    """Statement 50."""
    session = await create(service)
    new_event = event("hello")
    await service.append_event(session, new_event)
    assert session.events == [new_event]


async def test_the_callers_copy_gets_the_whole_delta(service):
    """Statement 51."""
    session = await create(service, state={"own": 1})
    await append(session, service, {"own": 2, "app:theme": "dark", "user:name": "Ann", "new": None})
    assert session.state == {"own": 2, "app:theme": "dark", "user:name": "Ann", "new": None}


async def test_concurrent_appends_to_one_session_are_all_stored_in_order(service):
    """Statement 52: the parallel branches of an invocation share one copy of the session."""
    session = await create(service)
    new_events = [event(f"{number}", {"last": number, f"k{number}": number}) for number in range(20)]
    await asyncio.gather(*(service.append_event(session, each) for each in new_events))
    stored_session = await get(service)
    assert [each.id for each in stored_session.events] == [each.id for each in session.events]
    assert {each.id for each in stored_session.events} == {each.id for each in new_events}
    assert stored_session.state["last"] == stored_session.events[-1].actions.state_delta["last"]
    assert stored_session.state == session.state


async def test_append_of_identical_stored_event_is_ignored(service):
    """Statement 53."""
    session = await create(service)
    new_event = event("hello", {"n": 1, "temp:t": 1})
    await service.append_event(session, new_event)
    await append(session, service, {"n": 2})
    await service.append_event(session, new_event.model_copy(deep=True))
    stored_session = await get(service)
    assert len(stored_session.events) == len(session.events) == 2
    assert stored_session.state == {"n": 2}


async def test_append_of_other_event_with_stored_id_is_refused(ours):
    """Statement 54."""
    session = await create(ours)
    first = event("hello", {"n": 1})
    await ours.append_event(session, first)
    with pytest.raises(ValueError, match="already stored in this session with another body"):
        await ours.append_event(session, event("goodbye", {"n": 2}, id=first.id))
    stored_session = await get(ours)
    assert [each.content.parts[0].text for each in stored_session.events] == ["hello"]
    assert stored_session.state == session.state == {"n": 1}


async def test_the_same_event_id_in_another_session_is_another_event(service):
    """Statement 54: an event's id is unique in its session only."""
    first, second = await create(service), await create(service, "s2")
    await service.append_event(first, event("a", id="e1"))
    await service.append_event(second, event("b", id="e1"))
    assert [each.content.parts[0].text for each in (await get(service, "s2")).events] == ["b"]


@pytest.mark.parametrize("moment", [2_000_000_000.123457, 5.25], ids=["newer", "older"])
async def test_last_update_time_is_the_time_of_the_last_event(service, moment):
    """Statement 68: also when the event is older than the session."""
    session = await create(service)
    await service.append_event(session, event(timestamp=moment))
    assert session.last_update_time == pytest.approx(moment, abs=1e-6)
    assert (await get(service)).last_update_time == pytest.approx(moment, abs=1e-6)


async def test_a_stale_copy_is_refused(ours):
    """Statement 69."""
    await create(ours, state={"n": 0})
    stale = await get(ours)
    await append(await get(ours), ours, {"n": 1})
    with pytest.raises(StaleSessionError, match="Read the session again"):
        await append(stale, ours, {"n": 2, "app:theme": "dark"})
    session = await get(ours)
    assert session.state == {"n": 1}
    assert len(session.events) == 1


async def test_a_copy_read_with_few_events_is_not_stale(ours):
    """Statement 69: what a copy was read at counts, not which events it holds."""
    session = await create(ours)
    await append(session, ours, {"n": 1})
    few = await get(ours, config=GetSessionConfig(num_recent_events=0))
    await append(few, ours, {"n": 2})
    assert len((await get(ours)).events) == 2


async def test_refused_append_leaves_the_copy_unchanged(ours):
    """Statement 48."""
    session = await create(ours, state={"n": 0})
    await append(await get(ours), ours, {"n": 1})
    before = session.model_copy(deep=True)
    with pytest.raises(StaleSessionError):
        await append(session, ours, {"n": 2, "app:theme": "dark", "temp:t": 1})
    assert session == before


async def test_append_to_unknown_session_leaves_the_copy_unchanged(service):
    """Statement 48."""
    unknown = Session(app_name=APP, user_id=USER, id="never was", state={"n": 0})
    with pytest.raises(SessionNotFoundError):
        await append(unknown, service, {"n": 1, "temp:t": 1})
    assert (unknown.state, unknown.events) == ({"n": 0}, [])


async def test_refused_append_leaves_the_event_unchanged(service):
    """Statement 49: it can be appended once more, with its `temp:` keys. (ADK's SQL services take them out.)"""
    unknown = Session(app_name=APP, user_id=USER, id="never was")
    new_event = event("hello", {"kept": 1, "temp:t": 1})
    before = new_event.model_copy(deep=True)
    with pytest.raises(SessionNotFoundError):
        await service.append_event(unknown, new_event)
    assert new_event == before


async def test_stale_append_leaves_the_event_unchanged(ours):
    """Statement 49."""
    stale = await create(ours)
    await append(await get(ours), ours, {"n": 1})
    new_event = event("hello", {"n": 2, "temp:t": 1})
    with pytest.raises(StaleSessionError):
        await ours.append_event(stale, new_event)
    fresh = await get(ours)
    await ours.append_event(fresh, new_event)
    assert fresh.state == {"n": 2, "temp:t": 1}


async def test_newly_created_and_newly_read_sessions_are_not_stale(service):
    """Statement 70."""
    await append(await create(service), service, {"n": 1})
    await append(await get(service), service, {"n": 2})
    assert (await get(service)).state == {"n": 2}


async def test_exactly_one_of_two_racing_copies_wins(ours):
    """Statement 71."""
    await create(ours)
    copies = [await get(ours), await get(ours)]
    outcomes = await asyncio.gather(
        *(append(copy, ours, {"winner": number}) for number, copy in enumerate(copies)),
        return_exceptions=True,
    )
    [loser] = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, StaleSessionError)]
    session = await get(ours)
    assert session.state == {"winner": 1 - loser}
    assert len(session.events) == 1


async def test_copy_accepts_consecutive_appends(service):
    """Statement 72."""
    session = await create(service)
    for turn in range(3):
        await append(session, service, {"turn": turn})
    assert len((await get(service)).events) == 3


async def test_handmade_copy_without_stored_events_is_stale(ours):
    """Statement 73."""
    await append(await create(ours), ours, {"n": 1})
    by_hand = Session(app_name=APP, user_id=USER, id="s1")
    with pytest.raises(StaleSessionError):
        await append(by_hand, ours, {"n": 2})
    assert (await get(ours)).state == {"n": 1}


async def test_handmade_copy_of_session_without_events_is_current(ours):
    """Statement 73."""
    await create(ours)
    await append(Session(app_name=APP, user_id=USER, id="s1"), ours, {"n": 1})
    assert (await get(ours)).state == {"n": 1}


async def test_copy_without_revision_is_judged_by_its_last_event(ours):
    """Statements 73 and 74: what a store marks a session with is private and is not in its JSON."""
    session = await create(ours)
    await append(session, ours, {"n": 1})
    first, second = (Session.model_validate_json(session.model_dump_json()) for _ in range(2))
    await append(first, ours, {"n": 2})
    with pytest.raises(StaleSessionError):
        await append(second, ours, {"n": 3})
    assert (await get(ours)).state == {"n": 2}


async def test_every_session_is_marked_with_the_revision_it_is_at(ours):
    """Statement 74."""
    session = await create(ours)
    marks = [_adk.stored_revision(session)]
    await append(session, ours, {"n": 1})
    marks.append(_adk.stored_revision(session))
    assert marks == [0, 1]
    assert _adk.stored_revision(await get(ours)) == 1
    [listed] = (await ours.list_sessions(app_name=APP)).sessions
    assert _adk.stored_revision(listed) == 1
