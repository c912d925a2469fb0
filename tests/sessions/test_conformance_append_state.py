"""Conformance of `append_event`: the state delta, scope by scope."""

from __future__ import annotations

import datetime

import pytest

from tests.sessions.build import append, create, event, get


async def test_temp_keys_are_readable_in_the_callers_copy(service):
    """Statement 55."""
    session = await create(service)
    await append(session, service, {"temp:draft": "x", "kept": 1})
    assert session.state == {"temp:draft": "x", "kept": 1}


async def test_temp_keys_are_removed_from_the_event(service):
    """Statement 56."""
    session = await create(service)
    new_event = event(delta={"temp:draft": "x", "kept": 1})
    await service.append_event(session, new_event)
    assert new_event.actions.state_delta == {"kept": 1}


async def test_temp_keys_are_not_stored(service):
    """Statement 57."""
    session = await create(service)
    await append(session, service, {"temp:draft": "x", "kept": 1})
    stored_session = await get(service)
    assert stored_session.state == {"kept": 1}
    assert stored_session.events[0].actions.state_delta == {"kept": 1}


async def test_an_app_key_is_seen_by_every_user(service):
    """Statement 58."""
    session = await create(service)
    await create(service, "theirs", user_id="bob")
    await append(session, service, {"app:theme": "dark"})
    assert (await get(service, "theirs", user_id="bob")).state == {"app:theme": "dark"}


async def test_a_user_key_is_seen_by_that_user_in_that_app_only(service):
    """Statement 59."""
    session = await create(service)
    for name, where in (("s2", {}), ("s3", {"user_id": "bob"}), ("s4", {"app_name": "news"})):
        await create(service, name, **where)
    await append(session, service, {"user:name": "Ann"})
    assert (await get(service, "s2")).state == {"user:name": "Ann"}
    assert (await get(service, "s3", user_id="bob")).state == {}
    assert (await get(service, "s4", app_name="news")).state == {}


async def test_a_session_key_is_seen_in_that_session_only(service):
    """Statement 60."""
    session = await create(service)
    await create(service, "s2")
    await append(session, service, {"own": 1})
    assert (await get(service)).state == {"own": 1}
    assert (await get(service, "s2")).state == {}


@pytest.mark.parametrize("prefix", ["", "user:", "app:"])
async def test_dict_replaces_the_stored_one(service, prefix):
    """Statement 61."""
    session = await create(service, state={prefix + "settings": {"a": 1, "deep": {"x": 1}}})
    await append(session, service, {prefix + "settings": {"deep": {"y": 2}}})
    assert (await get(service)).state == {prefix + "settings": {"deep": {"y": 2}}}


@pytest.mark.parametrize("prefix", ["", "user:", "app:"])
async def test_none_is_a_value_and_the_key_stays(service, prefix):
    """Statement 62."""
    session = await create(service, state={prefix + "name": "Ann"})
    await append(session, service, {prefix + "name": None})
    assert (await get(service)).state == {prefix + "name": None}


async def test_none_in_a_delta_stays_in_the_stored_event(service):
    """Statement 63."""
    session = await create(service)
    await append(session, service, {"a": None, "b": {"c": None, "d": [None]}})
    [event] = (await get(service)).events
    assert event.actions.state_delta == {"a": None, "b": {"c": None, "d": [None]}}


async def test_unwritten_keys_stay_unchanged(service):
    """Statement 64."""
    values = {
        "yes": True,
        "one": 1,
        "float": 1.0,
        "sum": 0.1 + 0.2,
        "big": 2**70,
        "app:big": -(2**70),
        "user:tiny": 5e-324,
        "text": "日本語 \u2028 'quoted' %s",
        "nested": {"b": [True, None, 1.5, {"a": ""}]},
    }
    session = await create(service, state=values)
    await append(session, service, {"other": 1})
    state = (await get(service)).state
    assert state == {**values, "other": 1}
    assert [type(state[key]) for key in values] == [type(value) for value in values.values()]


async def test_keys_keep_their_first_written_order(service):
    """Statement 64: an agent that prints its state prints it the same way every turn."""
    session = await create(service, state={"b": 1})
    await append(session, service, {"c": 1})
    await append(session, service, {"a": 1})
    await append(session, service, {"b": 2})
    assert list((await get(service)).state) == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC), "2026-01-02T03:04:05Z"),
        ((1, 2), [1, 2]),
        ({"only"}, ["only"]),
        (b"\x00\xff", "AP8="),
    ],
    ids=["datetime", "tuple", "set", "bytes"],
)
async def test_non_json_value_is_stored_in_json_form(ours, value, stored):
    """Statement 65."""
    session = await create(ours)
    await append(session, ours, {"k": value, "user:k": value, "app:k": value, "plain": 1})
    stored_session = await get(ours)
    assert stored_session.state == {"k": stored, "user:k": stored, "app:k": stored, "plain": 1}
    assert stored_session.events[0].actions.state_delta == stored_session.state


async def test_value_without_json_form_is_stored_as_text(ours):
    """Statement 65."""
    session = await create(ours)
    await append(session, ours, {"callback": print, "plain": 1})
    assert (await get(ours)).state == {"callback": "<built-in function print>", "plain": 1}


async def test_event_without_delta_updates_the_session_time(service):
    """Statement 66."""
    session = await create(service)
    await service.append_event(session, event("hello", timestamp=123.5))
    assert (await get(service)).last_update_time == 123.5


@pytest.mark.parametrize("prefix", ["app:", "user:"])
async def test_only_the_first_prefix_is_stripped(service, prefix):
    """Statement 67."""
    session = await create(service)
    key = f"{prefix}{prefix}n"
    await append(session, service, {key: 1})
    assert (await get(service)).state == {key: 1}
    assert (await create(service, "s2")).state == {key: 1}


async def test_prefixes_are_case_sensitive(service):
    """Statement 67."""
    session = await create(service)
    await append(session, service, {"App:x": 1, "USER:x": 2, "Temp:x": 3})
    assert (await get(service)).state == {"App:x": 1, "USER:x": 2, "Temp:x": 3}
    assert (await create(service, "s2")).state == {}
