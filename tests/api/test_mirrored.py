"""Server whose agents use an ADK session service: ADK's paths return its sessions, pages show the copies."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from devui.runtime.config import RuntimeOptions
from devui.supervisor import Supervisor
from sessions_app.branches.fork import NewFork, fork
from sessions_app.branches.rewind import plan_rewind
from sessions_app.external import session_creation
from sessions_app.runs import runtime_client as runs
from sessions_app.sessions import deletion, state_edits
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import AlreadyExists, BadInput
from sessions_app.store.models import AgentSession, MirroredSession, Run
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests import forked_processes
from tests.api.builders import run_body
from tests.api.conftest import AGENTS
from tests.api.live_sockets import ended_run
from tests.store import store_url

SESSIONS = "/apps/slow/users/ann/sessions"
KEY = SessionKey("", "slow", "ann", "s1")


@pytest.fixture
def adk_file(tmp_path: Path, settings: Any) -> Path:
    """The file of ADK's own session service, which this server's agents use."""
    file = tmp_path / "adk.db"
    settings.DEVUI_SESSION_SERVICE = f"sqlite:///{file}"
    return file


@asynccontextmanager
async def start_supervisor(options: RuntimeOptions) -> AsyncIterator[Supervisor]:
    """Start the agents' processes on demand, as `manage.py web` does."""
    with forked_processes.starts():
        async with Supervisor(AGENTS, options, environment={"DATABASE_URL": store_url()}) as running:
            runs.register(running)
            await (await running.client("slow")).call(
                "GET", "/devui/health"
            )  # a client waits less for its start
            yield running
            runs.register(None)


@pytest_asyncio.fixture
async def mirrored_runtimes(store: None, adk_file: Path) -> AsyncIterator[Supervisor]:
    """Supervisor as in `manage.py web --session_service_uri`."""
    async with start_supervisor(RuntimeOptions(session_service_uri=f"sqlite:///{adk_file}")) as running:
        yield running


@pytest_asyncio.fixture
async def plain(store: None) -> AsyncIterator[Supervisor]:
    """Supervisor as in `manage.py web`."""
    async with start_supervisor(RuntimeOptions()) as running:
        yield running


def event_counts(file: Path) -> list[tuple[str, int]]:
    """Return the sessions in ADK's own file, each with its number of events."""
    with sqlite3.connect(file) as adk:
        counted = (
            "SELECT id, (SELECT count(*) FROM events WHERE session_id = s.id) FROM sessions s ORDER BY id"
        )
        return adk.execute(counted).fetchall()


async def test_client_writes_reach_remote_store_and_copy(http_client, mirrored_runtimes, adk_file):
    created = await http_client.post(SESSIONS, json={"sessionId": "s1", "state": {"n": 1}})
    assert (created.status_code, created.json()["state"]) == (200, {"n": 1})
    assert (await http_client.post(SESSIONS, json={"sessionId": "s1"})).status_code == 409
    answer = await http_client.post("/run", json=run_body("s1", "short"))
    assert answer.status_code == 200, answer.text
    patched = await http_client.patch(f"{SESSIONS}/s1", json={"stateDelta": {"user:n": 2}})
    assert patched.json()["state"] == {"n": 1, "user:n": 2}
    events = 2 + len(answer.json())
    assert event_counts(adk_file) == [("s1", events)]
    assert (await http_client.get(f"{SESSIONS}/s1")).json()["events"] == patched.json()["events"]
    assert [session["id"] for session in (await http_client.get(SESSIONS)).json()] == ["s1"]

    run, row = (
        await ended_run(),
        await units_of_work.read(AgentSession.objects.select_related("mirrored").get),
    )
    assert (run.status, run.last_seq) == ("done", events - 1)
    assert (row.last_seq, row.mirrored.place, row.mirrored.behind) == (events, f"sqlite:///{adk_file}", "")
    body = (await http_client.get(f"/api/v1/sessions/{row.pk}")).json()
    assert body["stored_in"] == f"ADK's session service sqlite:///{adk_file}"

    assert (await http_client.delete(f"{SESSIONS}/s1")).status_code == 200
    assert event_counts(adk_file) == []
    assert not await units_of_work.read(AgentSession.objects.exists)
    assert (await http_client.get(f"{SESSIONS}/s1")).status_code == 404


async def test_title_from_adk_front_end_is_remote_state_and_local_title(
    http_client, mirrored_runtimes, adk_file
):
    await http_client.post(SESSIONS, json={"sessionId": "s1", "state": {"n": 1}})
    title_state = {"__session_metadata__": {"displayName": "Tea"}}
    patched = await http_client.patch(f"{SESSIONS}/s1", json={"stateDelta": title_state})
    assert patched.json()["state"] == {"n": 1, **title_state}
    row = await units_of_work.read(AgentSession.objects.get)
    assert (row.title, row.last_seq) == ("Tea", 1)
    assert (await http_client.get(f"{SESSIONS}/s1")).json()["state"] == {"n": 1, **title_state}
    await http_client.patch(f"{SESSIONS}/none", json={"stateDelta": title_state})
    assert (await units_of_work.read(AgentSession.objects.get)).title == "Tea"


async def test_run_on_session_unknown_to_its_agent_is_refused(http_client, mirrored_runtimes):
    session = await units_of_work.write(writes.create_session, KEY)
    response = await http_client.post("/api/v1/runs", json={"session": session.pk, "message": "short"})
    assert response.status_code == 202, response.text
    run: Run = await ended_run()
    assert (run.status, run.error_type) == ("failed", "BadInput")
    assert "is kept in DevUI's own store, but this server's agents keep theirs in" in run.error


async def test_session_from_page_is_created_remotely(mirrored_runtimes, adk_file):
    from asgiref.sync import sync_to_async

    new_session = await sync_to_async(session_creation.create_session)(KEY, {"n": 1})
    assert new_session.session_id == "s1"
    assert event_counts(adk_file) == [("s1", 0)]
    with pytest.raises(AlreadyExists, match="already exists"):
        await sync_to_async(session_creation.create_session)(KEY, {})
    with pytest.raises(BadInput, match="its paths cannot hold this id"):
        await sync_to_async(session_creation.create_session)(KEY._replace(user_id="a/b"), {})


@pytest.fixture
def copy(adk_file: Path, transactional_db: None) -> AgentSession:
    """The copy of a session that is kept there."""
    session = writes.create_session(KEY, {"n": 1})
    MirroredSession.objects.create(session=session, place=f"sqlite:///{adk_file}")
    writes.edit_state(KEY, {"n": 2})
    session.refresh_from_db()
    return session


def test_local_only_changes_are_refused_with_hint(copy):
    event = copy.events.get()
    refusals = [
        lambda: state_edits.put_key(copy.pk, "n", 3),
        lambda: plan_rewind(copy, event_id=event.event_id),
        lambda: deletion.delete([copy.pk]),
        lambda: fork(copy.pk, NewFork()),
    ]
    for refused in refusals:
        with pytest.raises(BadInput) as error:
            refused()
        assert "sqlite:///" in error.value.message
        assert "/apps/" in error.value.hint
    assert AgentSession.objects.get().last_seq == 1


def test_a_fork_with_state_of_its_own_is_a_session_of_this_store(copy):
    new_session = fork(copy.pk, NewFork(own_realm=True))
    state_edits.put_key(new_session.pk, "n", 3)
    new_session.refresh_from_db()
    assert new_session.last_seq == 2


def test_without_its_service_a_copy_can_be_deleted_and_not_be_changed(copy, settings):
    settings.DEVUI_SESSION_SERVICE = ""
    with pytest.raises(BadInput, match="DevUI has a copy"):
        state_edits.put_key(copy.pk, "n", 3)
    deletion.delete([copy.pk])
    assert not AgentSession.objects.filter(realm="").exists()


async def test_adks_paths_refuse_to_change_a_copy_without_its_service(web, copy, settings):
    settings.DEVUI_SESSION_SERVICE = ""
    refused = await web.patch(f"{SESSIONS}/s1", json={"stateDelta": {"n": 3}})
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_input")
    assert (await web.get(f"{SESSIONS}/s1")).json()["state"] == {"n": 2}


async def test_a_run_on_a_copy_without_its_service_is_refused_on_adks_paths(
    http_client, plain, copy, settings
):
    settings.DEVUI_SESSION_SERVICE = ""
    refused = await http_client.post("/run", json=run_body("s1", "short"))
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_input")
    assert "--session_service_uri sqlite:///" in refused.json()["hint"]
    assert not await units_of_work.read(Run.objects.exists)
