"""Conformance of `get_session`."""

from __future__ import annotations

import pytest
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig

from tests.sessions.build import OWNER, append, create, event, get
from tests.sessions.full_event import full_event


async def talk(service, *texts: str) -> None:
    session = await create(service)
    for number, text in enumerate(texts):
        await service.append_event(session, event(text, timestamp=100.0 + number))


def texts(session) -> list[str]:
    return [event.content.parts[0].text for event in session.events]


@pytest.mark.parametrize("wrong", [{"app_name": "?"}, {"user_id": "?"}, {"session_id": "?"}])
async def test_an_unknown_app_user_or_id_gives_none(service, wrong):
    """Statement 16."""
    await create(service)
    assert await service.get_session(**{**OWNER, "session_id": "s1", **wrong}) is None


async def test_session_of_another_user_is_not_found(service):
    """Statement 17."""
    await create(service, "private", user_id="bob")
    assert await service.get_session(**OWNER, session_id="private") is None


async def test_the_state_holds_the_live_values_of_all_three_scopes(service):
    """Statement 18."""
    session = await create(service, state={"own": 1, "app:theme": "dark", "user:name": "Ann"})
    other = await create(service, "s2")
    await append(other, service, {"app:theme": "light", "user:age": 7, "own": "not mine"})
    stored_session = await get(service)
    assert stored_session.state == {"own": 1, "app:theme": "light", "user:name": "Ann", "user:age": 7}
    assert session.state["app:theme"] == "dark"


async def test_a_copy_that_is_changed_changes_nothing_stored(service):
    """Statement 19."""
    await create(service, state={"list": [1]})
    copy = await get(service)
    copy.state["list"].append(2)
    copy.state["new"] = 1
    copy.events.append(event("never appended"))
    session = await get(service)
    assert session.state == {"list": [1]}
    assert session.events == []


async def test_reread_session_equals_the_appended_one(service):
    """Statement 20."""
    session = await create(service, state={"own": 1})
    await service.append_event(session, full_event())
    await append(session, service, {"own": 2, "app:theme": "dark"})
    stored_session = await get(service)
    assert stored_session == session


@pytest.mark.parametrize("field", sorted(set(Event.model_fields) - {"partial"}))
async def test_every_field_of_an_event_comes_back(ours, field):
    """Statements 20 and 81, field by field. (A partial event is never stored.)"""
    session, new_event = await create(ours), full_event()
    await ours.append_event(session, new_event)
    [event] = (await get(ours)).events
    assert getattr(new_event, field) is not None
    assert getattr(event, field) == getattr(new_event, field)


async def test_the_n_most_recent_events_come_in_order(service):
    """Statement 21."""
    await talk(service, "a", "b", "c", "d")
    session = await get(service, config=GetSessionConfig(num_recent_events=3))
    assert texts(session) == ["b", "c", "d"]


async def test_too_large_num_recent_events_returns_all(service):
    """Statement 21."""
    await talk(service, "a", "b")
    session = await get(service, config=GetSessionConfig(num_recent_events=10))
    assert texts(session) == ["a", "b"]


async def test_no_recent_events_gives_the_session_without_events(service):
    """Statement 22."""
    session = await create(service, state={"own": 1})
    await append(session, service, {"own": 2})
    stored_session = await get(service, config=GetSessionConfig(num_recent_events=0))
    assert stored_session.events == []
    assert stored_session.state == {"own": 2}


def test_a_negative_number_of_recent_events_is_refused():
    """Statement 23."""
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        GetSessionConfig(num_recent_events=-1)


async def test_after_timestamp_includes_events_at_that_time(service):
    """Statement 24."""
    await talk(service, "a", "b", "c", "d")
    session = await get(service, config=GetSessionConfig(after_timestamp=102.0))
    assert texts(session) == ["c", "d"]


@pytest.mark.parametrize(
    ("number", "moment", "expected"),
    [(1, 101.0, ["d"]), (3, 102.0, ["c", "d"]), (0, 100.0, []), (2, 104.0, [])],
)
async def test_both_filters_are_combined(service, number, moment, expected):
    """Statement 25."""
    await talk(service, "a", "b", "c", "d")
    config = GetSessionConfig(num_recent_events=number, after_timestamp=moment)
    assert texts(await get(service, config=config)) == expected


async def test_timestamp_0_is_no_filter(ours):
    """Statement 26: also for an event of before 1970."""
    session = await create(ours)
    await ours.append_event(session, event("a", timestamp=-5.0))
    stored_session = await get(ours, config=GetSessionConfig(after_timestamp=0))
    assert texts(stored_session) == ["a"]


@pytest.mark.parametrize(
    "config", [GetSessionConfig(num_recent_events=1), GetSessionConfig(after_timestamp=999.0)], ids=str
)
async def test_filters_choose_events_only(service, config):
    """Statement 27."""
    session = await create(service, state={"own": 0})
    for turn in (1, 2):
        await append(session, service, {"own": turn, "user:turn": turn}, timestamp=100.0 + turn)
    stored_session = await get(service, config=config)
    assert stored_session.state == {"own": 2, "user:turn": 2}
    assert stored_session.last_update_time == 102.0


@pytest.mark.parametrize("config", [None, GetSessionConfig()], ids=["none", "empty"])
async def test_without_filters_all_events_come(service, config):
    """Statement 28."""
    await talk(service, "a", "b", "c")
    assert texts(await get(service, config=config)) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "config", [GetSessionConfig(num_recent_events=0), GetSessionConfig(after_timestamp=102.0)], ids=str
)
async def test_append_to_filtered_copy_loses_no_event(service, config):
    """Statement 29."""
    await talk(service, "a", "b", "c")
    few = await get(service, config=config)
    await service.append_event(few, event("d", timestamp=200.0))
    assert texts(await get(service)) == ["a", "b", "c", "d"]


async def test_events_of_equal_time_have_a_stable_order(service):
    """Statements 30 and 31: that of appending, whatever their ids."""
    session = await create(service)
    for name in ("c", "a", "b"):
        await service.append_event(session, event(name, id=name, timestamp=100.0))
    assert [texts(await get(service)) for _ in range(2)] == [["c", "a", "b"]] * 2
    recent = await get(service, config=GetSessionConfig(num_recent_events=2))
    assert texts(recent) == ["a", "b"]


async def test_event_older_than_its_predecessor_keeps_its_place(service):
    """Statement 32: as in ADK's InMemorySessionService; its SQL services sort by time."""
    session = await create(service)
    for name, moment in (("a", 100.0), ("b", 50.0), ("c", 75.0)):
        await service.append_event(session, event(name, timestamp=moment))
    assert texts(await get(service)) == texts(session) == ["a", "b", "c"]
    recent = await get(service, config=GetSessionConfig(num_recent_events=2))
    assert texts(recent) == ["b", "c"]


async def test_timestamp_filters_every_event_by_its_own_time(ours):
    """Statement 32: ADK's InMemorySessionService stops looking at the first older event from the end."""
    session = await create(ours)
    for name, moment in (("a", 100.0), ("b", 50.0), ("c", 75.0)):
        await ours.append_event(session, event(name, timestamp=moment))
    stored_session = await get(ours, config=GetSessionConfig(after_timestamp=75.0))
    assert texts(stored_session) == ["a", "c"]


async def test_times_come_back_to_the_last_bit(service):
    """Statement 33: also those of an hour that the clocks of some places show twice."""
    session = await create(service)
    moments = [0.1 + 0.2, 1_792_891_800.123456, 1_792_895_400.123456, 1_795_278_865.9259341]
    for moment in moments:
        await service.append_event(session, event(timestamp=moment))
    stored_session = await get(service)
    assert [happened.timestamp for happened in stored_session.events] == moments
    assert stored_session.last_update_time == moments[-1]
