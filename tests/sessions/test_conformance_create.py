"""Conformance of `create_session`."""

from __future__ import annotations

import asyncio
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connections
from google.adk.errors.already_exists_error import AlreadyExistsError

from sessions_app.adk import DjangoSessionService
from sessions_app.store.errors import AlreadyExists
from sessions_app.store.sessions import writes
from tests.patience import PATIENCE_S
from tests.sessions.build import APP, OWNER, USER, create, get


async def test_new_session_has_given_ids_no_events_and_merged_state(service):
    """Statement 1."""
    session = await create(service, state={"mood": "calm", "app:theme": "dark", "user:name": "Ann"})
    assert (session.app_name, session.user_id, session.id) == (APP, USER, "s1")
    assert session.events == []
    assert session.state == {"mood": "calm", "app:theme": "dark", "user:name": "Ann"}


async def test_missing_id_becomes_a_uuid(service):
    """Statement 2."""
    first, second = await create(service, None), await create(service, None)
    assert uuid.UUID(first.id).version == 4
    assert first.id != second.id


async def test_existing_id_is_refused(service):
    """Statement 3."""
    await create(service)
    with pytest.raises(AlreadyExistsError, match="s1 already exists"):
        await create(service)


async def test_exactly_one_of_two_concurrent_creates_wins(service):
    """Statement 4."""
    outcomes = await asyncio.gather(*(create(service) for _ in range(5)), return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert [type(error) for error in refused] == [AlreadyExistsError] * 4


def test_exactly_one_of_two_creating_processes_wins(store):
    """Statement 4, with a connection each, as two processes have."""
    key, together = writes.SessionKey("", APP, USER, "s1"), Barrier(2)

    def attempt() -> str:
        together.wait(timeout=PATIENCE_S)
        try:
            writes.create_session(key, {"app:seen": 1})
        except AlreadyExists:
            return "refused"
        finally:
            connections.close_all()
        return "created"

    with ThreadPoolExecutor(2) as pool:
        outcomes = [future.result() for future in [pool.submit(attempt) for _ in range(2)]]
    assert sorted(outcomes) == ["created", "refused"]


async def test_the_same_id_under_another_user_or_app_is_another_session(service):
    """Statement 5."""
    await create(service, state={"whose": "ann"})
    await create(service, user_id="bob", state={"whose": "bob"})
    await create(service, app_name="news", state={"whose": "news"})
    assert (await get(service)).state == {"whose": "ann"}
    assert (await get(service, user_id="bob")).state == {"whose": "bob"}
    assert (await get(service, app_name="news")).state == {"whose": "news"}


@pytest.mark.parametrize("blank", ["   ", "\t\n"])
async def test_blank_id_is_replaced(service, blank):
    """Statement 6."""
    session = await create(service, blank)
    assert session.id.strip() == session.id != ""


async def test_empty_id_is_replaced(service):
    """Statement 6."""
    assert (await create(service, "")).id


async def test_id_with_blanks_names_the_trimmed_session(service):
    """Statement 6."""
    assert (await create(service, "  s1 ")).id == "s1"
    assert (await get(service, " s1  ")).id == "s1"
    with pytest.raises(AlreadyExistsError):
        await create(service, "s1 ")


async def test_app_keys_of_the_initial_state_are_the_apps(service):
    """Statement 7."""
    await create(service, state={"app:theme": "dark"})
    elsewhere = await create(service, user_id="bob")
    other_app = await create(service, app_name="news")
    assert elsewhere.state == {"app:theme": "dark"}
    assert other_app.state == {}


async def test_user_keys_of_the_initial_state_are_the_users_in_this_app(service):
    """Statement 8."""
    await create(service, state={"user:name": "Ann"})
    assert (await create(service, "s2")).state == {"user:name": "Ann"}
    assert (await create(service, "s3", user_id="bob")).state == {}
    assert (await create(service, "s4", app_name="news")).state == {}
    assert await service.get_user_state(**OWNER) == {"name": "Ann"}


async def test_temp_keys_of_the_initial_state_are_neither_returned_nor_stored(service):
    """Statement 9."""
    created = await create(service, state={"temp:draft": 1, "kept": 2})
    assert created.state == {"kept": 2}
    assert (await get(service)).state == {"kept": 2}


async def test_a_bare_app_prefix_names_the_empty_key_of_the_app(service):
    """Statement 10."""
    await create(service, state={"app:": "nameless"})
    assert (await create(service, user_id="bob")).state == {"app:": "nameless"}


@pytest.mark.parametrize("key", ["APP:x", "User:x", "temp", "app", "foo:bar", " app:x", ""])
async def test_key_with_unknown_prefix_is_a_session_key(service, key):
    """Statement 10."""
    await create(service, state={key: 1})
    assert (await get(service)).state == {key: 1}
    assert (await create(service, "s2")).state == {}


async def test_none_in_the_initial_state_is_a_value(service):
    """Statement 11."""
    nothing = {"a": None, "app:b": None, "user:c": None}
    assert (await create(service, state=nothing)).state == nothing
    assert (await get(service)).state == nothing


async def test_new_session_has_app_and_user_state(service):
    """Statement 12."""
    await create(service, state={"app:theme": "dark", "user:name": "Ann"})
    session = await create(service, "s2", state={"own": 1})
    assert session.state == {"own": 1, "app:theme": "dark", "user:name": "Ann"}


async def test_a_new_session_was_updated_now(service):
    """Statement 13."""
    before = time.time()
    session = await create(service)
    assert before <= session.last_update_time <= time.time()


async def test_a_create_that_is_refused_changes_no_shared_state(service):
    """Statement 14."""
    await create(service, state={"app:theme": "dark", "user:name": "Ann"})
    with pytest.raises(AlreadyExistsError):
        await create(service, state={"app:theme": "light", "user:name": "Eve", "user:new": 1})
    assert (await get(service)).state == {"app:theme": "dark", "user:name": "Ann"}


async def test_missing_initial_state_is_empty(service):
    """Statement 15."""
    assert (await create(service, "s1", state=None)).state == {}
    assert (await create(service, "s2", state={})).state == {}


async def test_a_realm_is_a_world_of_its_own(ours):
    """Eval attempts, forks and replays never touch real state."""
    await create(ours, state={"user:n": 1})
    attempt = DjangoSessionService(realm="eval/r1/c1/0")
    assert (await create(attempt)).state == {}
    assert await ours.get_user_state(**OWNER) == {"n": 1}
