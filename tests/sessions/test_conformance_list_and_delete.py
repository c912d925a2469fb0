"""Conformance of `list_sessions`, `delete_session` and `get_user_state`."""

from __future__ import annotations

from typing import Any

import pytest

from sessions_app.adk import session_loading
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests.sessions.build import APP, OWNER, USER, append, create, event, get


async def list_sessions(service, **fields) -> list:
    return (await service.list_sessions(**{"app_name": APP, **fields})).sessions


async def test_a_list_has_no_events(service):
    """Statement 34."""
    session = await create(service)
    await service.append_event(session, event("hello"))
    [result] = await list_sessions(service, user_id=USER)
    assert (result.id, result.events) == ("s1", [])


async def test_every_session_of_a_list_has_the_state_of_its_own_user(service):
    """Statement 35."""
    await create(service, state={"own": 1, "app:theme": "dark", "user:name": "Ann"})
    await create(service, user_id="bob", state={"own": 2, "user:name": "Bob"})
    states = {session.user_id: session.state for session in await list_sessions(service)}
    assert states == {
        "ann": {"own": 1, "app:theme": "dark", "user:name": "Ann"},
        "bob": {"own": 2, "app:theme": "dark", "user:name": "Bob"},
    }


async def test_list_is_sorted_by_update_time_then_user_and_id(service):
    """Statement 36."""
    for user, name, moment in (("bob", "x", 5.0), ("ann", "z", 5.0), ("ann", "y", 5.0), ("ann", "w", 9.0)):
        session = await create(service, name, user_id=user)
        await service.append_event(session, event(timestamp=moment))
    order = [(session.user_id, session.id) for session in await list_sessions(service)]
    assert order == [("ann", "y"), ("ann", "z"), ("bob", "x"), ("ann", "w")]


async def test_list_is_sorted_by_code_points_in_every_database(service):
    """Statement 36."""
    for user, name in (("é", "x"), ("a", "x"), ("B", "x"), ("a", "é"), ("a", "Z")):
        session = await create(service, name, user_id=user)
        await service.append_event(session, event(timestamp=5.0))
    order = [(session.user_id, session.id) for session in await list_sessions(service)]
    assert order == [("B", "x"), ("a", "Z"), ("a", "x"), ("a", "é"), ("é", "x")]


async def test_the_sessions_of_a_list_share_nothing(service):
    """Statements 19 and 35."""
    for name in ("s1", "s2"):
        await create(service, name, state={"app:list": [1], "user:list": [1], "list": [1]})
    first, second = await list_sessions(service)
    for spoiled in first.state.values():
        spoiled.append(2)
    assert second.state == {"app:list": [1], "user:list": [1], "list": [1]}
    assert [session.state for session in await list_sessions(service)] == [second.state] * 2


@pytest.mark.parametrize("user_id", [None, USER])
def test_list_needs_three_queries_for_any_length(store, django_assert_num_queries, user_id):
    for number in range(7):
        user = USER if number % 2 else f"u{number}"
        state = {"own": number, f"user:{number}": number, f"app:{number}": number}
        writes.create_session(SessionKey("", APP, user, f"s{number}"), state)
    with django_assert_num_queries(3):
        sessions = session_loading.list_sessions("", APP, user_id)
    assert len(sessions) == (7 if user_id is None else 3)
    assert sessions[0].state["app:6"] == 6


async def test_a_list_has_the_state_that_a_session_has(ours):
    deep: list[Any] = []
    for _ in range(90):
        deep = [deep]
    values = [
        0.1,
        1e300,
        -0.0,
        5e-324,
        2**64,
        -(10**400),
        True,
        None,
        "",
        'ä\x00\x1f\u2028"\\',
        {"a": [{}]},
        deep,
    ]
    names = ["", '"', "\\", "\x1f", "ä", "n" * 500, "%s", "{0}", "a:b", "'", "\n", "token"]
    state = {
        f"{scope}{name}": value
        for scope in ("", "user:", "app:")
        for name, value in zip(names, values, strict=True)
    }
    await create(ours, state=state)
    await create(ours, "empty")
    states = {session.id: session.state for session in await list_sessions(ours)}
    for name in ("s1", "empty"):
        assert states[name] == (await get(ours, name)).state
        assert repr(states[name]["user:\\"]) == "-0.0"
    assert len(states["s1"]) == 36


async def test_a_session_of_a_list_can_be_appended_to(service):
    """Statement 70."""
    await append(await create(service), service, {"own": 1})
    [session] = await list_sessions(service)
    await append(session, service, {"own": 2})
    assert (await get(service)).state == {"own": 2}


async def test_no_user_lists_all_users_of_the_app(service):
    """Statement 37."""
    await create(service)
    await create(service, user_id="bob")
    assert {session.user_id for session in await list_sessions(service, user_id=None)} == {"ann", "bob"}


async def test_empty_user_lists_only_sessions_of_the_empty_user(service):
    """Statement 38."""
    await create(service)
    assert await list_sessions(service, user_id="") == []
    await create(service, "nobodys", user_id="")
    assert [session.id for session in await list_sessions(service, user_id="")] == ["nobodys"]


@pytest.mark.parametrize("unknown", [{"app_name": "?"}, {"user_id": "?"}])
async def test_an_unknown_app_or_user_has_an_empty_list(service, unknown):
    """Statement 39."""
    await create(service)
    assert await list_sessions(service, **unknown) == []


async def test_sessions_of_other_apps_are_not_listed(service):
    """Statement 40."""
    await create(service)
    await create(service, "elsewhere", app_name="news")
    assert [session.id for session in await list_sessions(service)] == ["s1"]


async def test_deleting_missing_session_is_no_error(service):
    """Statement 41."""
    assert await service.delete_session(**OWNER, session_id="never was") is None


async def test_a_deleted_id_that_is_created_again_starts_empty(service):
    """Statement 42."""
    session = await create(service, state={"own": 1})
    await append(session, service, {"own": 2})
    await service.delete_session(**OWNER, session_id="s1")
    assert await service.get_session(**OWNER, session_id="s1") is None
    again = await create(service)
    assert (again.state, again.events) == ({}, [])
    assert (await get(service)).events == []


async def test_deleting_leaves_the_session_of_that_id_of_another_user(service):
    """Statement 43."""
    await create(service)
    await create(service, user_id="bob", state={"own": 1})
    await service.delete_session(**OWNER, session_id="s1")
    assert (await get(service, user_id="bob")).state == {"own": 1}


async def test_delete_keeps_user_and_app_state(service):
    """Statement 44."""
    await create(service, state={"own": 1, "app:theme": "dark", "user:name": "Ann"})
    await service.delete_session(**OWNER, session_id="s1")
    assert (await create(service, "s2")).state == {"app:theme": "dark", "user:name": "Ann"}


async def test_user_state_has_bare_keys_per_user_and_app(service):
    """Statement 75."""
    await create(service, state={"user:name": "Ann", "user:user:odd": 1, "own": 2, "app:theme": "dark"})
    assert await service.get_user_state(**OWNER) == {"name": "Ann", "user:odd": 1}
    assert await service.get_user_state(app_name=APP, user_id="bob") == {}
    assert await service.get_user_state(app_name="news", user_id=USER) == {}


async def test_user_state_is_a_copy(service):
    """Statement 75."""
    await create(service, state={"user:tags": ["a"]})
    (await service.get_user_state(**OWNER))["tags"].append("b")
    assert await service.get_user_state(**OWNER) == {"tags": ["a"]}
