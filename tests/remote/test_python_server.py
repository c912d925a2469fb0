"""ADK's own Python server as a remote: the code of `adk api_server`, over ADK's in-memory services."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from google.adk.sessions.in_memory_session_service import InMemorySessionService

from sessions_app.branches.fork import NewFork, fork
from sessions_app.sessions import deletion, state_edits, storage_location
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput
from sessions_app.store.models import AgentCard, AgentSession, Event, Run, StateChange
from tests.api.peer import adk_server
from tests.patience import PATIENCE_S
from tests.remote.conftest import (
    EXAMPLES,
    connect_runtimes,
    serve_remote,
    start_run,
    the_session,
    wait_for_end,
)
from tests.web import serve

OFFICE = "/apps/office@py/users/ann/sessions"


@pytest.fixture(scope="module")
def oracle() -> tuple[Any, InMemorySessionService]:
    """ADK's server, which takes a while to make, and its sessions."""
    service = InMemorySessionService()
    return adk_server(EXAMPLES, service), service


@pytest_asyncio.fixture
async def there(
    oracle: tuple[Any, InMemorySessionService], web: httpx.AsyncClient
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of ADK's server itself, without sessions, to which DevUI is connected as `py`."""
    server, service = oracle
    for values in (service.sessions, service.user_state, service.app_state):
        values.clear()
    async with (
        serve(server) as address,
        connect_runtimes(f"py=http://{address}"),
        httpx.AsyncClient(base_url=f"http://{address}", trust_env=False, timeout=PATIENCE_S) as client,
    ):
        yield client


async def begin(web: httpx.AsyncClient, session_id: str = "s1", **body: Any) -> int:
    """Create a session by ADK's path, and return its key here."""
    created = await web.post(OFFICE, json={"sessionId": session_id, **body})
    assert created.status_code == 200, created.text
    row: AgentSession = await units_of_work.read(AgentSession.objects.get, session_id=session_id)
    return row.pk


async def same(web: httpx.AsyncClient, there: httpx.AsyncClient, session_id: str = "s1") -> dict[str, Any]:
    """Hold what DevUI answers of a session to what its server answers, and return it."""
    here: dict[str, Any] = (await web.get(f"{OFFICE}/{session_id}")).json()
    original = (await there.get(f"/apps/office/users/ann/sessions/{session_id}")).json()
    assert here == original | {"appName": "office@py"}
    return here


async def test_remote_agents_are_listed_and_described(web, there):
    assert "office@py" in (await web.get("/list-apps")).json()
    page = await web.get("/agents/office@py/", headers={"HX-Request": "true", "HX-Target": "agent-card"})
    assert page.status_code == 200
    assert "Requests, payments, notes and memory." in page.text
    assert "request_leave" in page.text
    assert "Help with the work of an office." in page.text
    detailed = (await web.get("/list-apps", params={"detailed": "true"})).json()["apps"]
    office = next(app for app in detailed if app["name"] == "office@py")
    assert (office["rootAgentName"], office["language"]) == ("office", "python")


async def test_streamed_run_equals_the_session_on_the_server(web, there):
    key = await begin(web, state={"mood": "calm", "user:name": "Ann", "app:house": 7})
    run = await wait_for_end(await start_run(web, key, "Take a note: tea at four", streaming=True))
    assert (run.status, run.error) == ("done", "")
    session = await same(web, there)
    assert session["state"] == {"mood": "calm", "user:name": "Ann", "app:house": 7, "notes": 1}
    assert [event["actions"]["artifactDelta"] for event in session["events"]] == [
        {},
        {},
        {"minutes.md": 0},
        {},
    ]
    row = await the_session()
    assert (row.last_seq, row.mirrored.behind, row.origin) == (4, "", "live")
    assert str(await units_of_work.read(storage_location.find_location, row)).startswith(
        "the ADK server http://127.0.0.1:"
    )

    def causes() -> list[tuple[str, str]]:
        return list(StateChange.objects.order_by("pk").values_list("key", "cause"))

    assert ("notes", "append") in await units_of_work.read(causes)
    assert (
        "import" not in dict(await units_of_work.read(causes)).values()
    )  # nothing came but by an event or as a seed


@pytest.mark.soak
async def test_next_read_imports_changes_made_on_the_server(web, there):
    await begin(web)
    request = {"appName": "office", "userId": "ann", "sessionId": "s1"}
    message = {"newMessage": {"role": "user", "parts": [{"text": "Take a note: by phone"}]}}
    assert (await there.post("/run", json=request | message)).status_code == 200
    await there.patch("/apps/office/users/ann/sessions/s1", json={"stateDelta": {"user:n": 2}})
    session = await same(web, there)
    assert (len(session["events"]), session["state"]["user:n"]) == (5, 2)


@pytest.mark.soak
async def test_long_running_call_and_confirmation_are_answered(web, there):
    key = await begin(web)
    waiting = await wait_for_end(await start_run(web, key, "Pay 120 to Acme"))
    assert waiting.status == "waiting"

    def confirmation_call() -> Any:
        calls = (part.get("functionCall") for event in Event.objects.order_by("seq") for part in parts(event))
        return next(call for call in calls if call and call["name"] == "adk_request_confirmation")

    def parts(event: Event) -> list[dict[str, Any]]:
        content_parts: list[dict[str, Any]] = json.loads(event.data).get("content", {}).get("parts", [])
        return content_parts

    call = await units_of_work.read(confirmation_call)
    answer = {"functionResponse": {"id": call["id"], "name": call["name"], "response": {"confirmed": True}}}
    paid = await wait_for_end(await start_run(web, key, {"role": "user", "parts": [answer]}))
    assert (paid.status, paid.error) == ("done", "")
    assert (await same(web, there))["state"]["payments"] == [{"to": "Acme", "amount": 120}]
    assert (await wait_for_end(waiting.pk)).status == "done"


async def test_agent_failure_fails_the_run(web, there):
    key = await begin(web)
    run = await wait_for_end(await start_run(web, key, "Break it"))
    assert (run.status, run.error_type) == ("failed", "RuntimeError")
    assert run.error == "The printer on floor 7 does not answer."
    assert (await same(web, there))["events"][0]["author"] == "user"


async def test_adks_own_paths_run_and_record_it(web, there):
    key = await begin(web)
    request = {"appName": "office@py", "userId": "ann", "sessionId": "s1", "streaming": True}
    message = {"newMessage": {"role": "user", "parts": [{"text": "Take a note: tea"}]}}
    answer = await web.post("/run_sse", json=request | message)
    assert answer.headers["content-type"].startswith("text/event-stream")
    frames = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line]
    session = await same(web, there)
    assert [event for event in frames if not event.get("partial")] == session["events"][1:]
    whole = await web.post(
        "/run", json=request | {"newMessage": {"role": "user", "parts": [{"text": "Hello"}]}}
    )
    assert whole.json() == (await same(web, there))["events"][len(session["events"]) + 1 :]
    failed = await web.post(
        "/run", json=request | {"newMessage": {"role": "user", "parts": [{"text": "Break it"}]}}
    )
    assert (failed.status_code, failed.json()["detail"]) == (
        500,
        "RuntimeError: The printer on floor 7 does not answer.",
    )

    def rows() -> list[tuple[str, str]]:
        return list(Run.objects.filter(session=key).order_by("created_at").values_list("source", "status"))

    assert await units_of_work.read(rows) == [("adk", "done"), ("adk", "done"), ("adk", "failed")]
    none = await web.post("/run", json=request | {"sessionId": "none"} | message)
    assert (none.status_code, none.json()["code"]) == (404, "session_not_found")


@pytest.mark.soak
async def test_state_artifacts_and_memory_are_reached_through_adks_paths(web, there):
    key = await begin(web, "noted")  # files outlive the sessions of other tests
    await wait_for_end(await start_run(web, key, "Take a note: tea"))
    patched = await web.patch(f"{OFFICE}/noted", json={"stateDelta": {"mood": "good", "temp:x": 1}})
    assert (patched.status_code, patched.json()["state"]["temp:x"]) == (200, 1)
    assert (await same(web, there, "noted"))["state"]["mood"] == "good"
    assert (await web.get(f"{OFFICE}/noted/artifacts")).json() == ["minutes.md"]
    part = (await web.get(f"{OFFICE}/noted/artifacts/minutes.md/versions/0")).json()
    assert "tea" in part["text"]
    listed = await web.get("/artifacts/?app=office@py&user=ann&session=noted")
    there = "/artifacts/there/?app=office%40py&amp;user=ann&amp;session=noted"
    assert f'id="there" hx-get="{there}"' in listed.text
    page = (await web.get(there.replace("&amp;", "&"))).text
    assert "minutes.md" in page
    content = re.search(r'href="(/artifacts/there/content/[^"]+)"', page)
    assert content is not None
    artifact_page = await web.get(content[1].replace("&amp;", "&"))
    assert (artifact_page.status_code, "- tea" in artifact_page.text) == (200, True)
    assert artifact_page.headers["content-security-policy"].startswith("sandbox;")
    followed = await web.get(f"/sessions/id/{key}/artifacts/?name=minutes.md&version=0")
    assert followed.headers["location"] == "/artifacts/?app=office%40py&user=ann&session=noted"
    recalled = (await web.get("/memory/there/?app=office@py&user=ann&q=tea")).text
    assert "does not provide searches in memory" in recalled
    missing = await web.get(f"{OFFICE}/noted/artifacts/nothing")
    assert (missing.status_code, missing.json()["detail"]) == (404, "Artifact not found")
    remembered = await web.patch("/apps/office@py/users/ann/memory", json={"session_id": "noted"})
    assert (remembered.status_code, remembered.json()) == (200, None)


@pytest.mark.soak
async def test_copy_is_read_only_and_can_be_forked(web, there):
    key = await begin(web)
    await wait_for_end(await start_run(web, key, "Take a note: tea"))
    session = await the_session()
    with pytest.raises(BadInput, match="belongs to the ADK server http"):
        await units_of_work.write(state_edits.put_key, session.pk, "n", 1)
    with pytest.raises(BadInput, match="DevUI has a copy"):
        await units_of_work.write(deletion.delete, [session.pk])
    with pytest.raises(BadInput, match="would not find"):
        await units_of_work.run_batched(fork, session.pk, NewFork(seq=2))
    new_fork = await units_of_work.run_batched(fork, session.pk, NewFork(seq=2, own_realm=True))
    run = await wait_for_end(await start_run(web, new_fork.pk, "Hello"))
    assert (run.status, run.error_type) == ("failed", "BadInput")
    assert "this fork has its own state" in run.error


@pytest.mark.soak
async def test_copy_reports_session_deleted_on_the_server(web, there, oracle):
    key = await begin(web)
    await wait_for_end(await start_run(web, key, "Hello"))
    oracle[1].sessions.clear()
    page = await web.get(f"{OFFICE}/s1")
    assert page.status_code == 404
    row = await the_session()
    assert (row.last_seq, row.mirrored.behind.startswith("It no longer exists in http")) == (2, True)
    run = await wait_for_end(await start_run(web, key, "Hello"))
    assert (run.status, run.error_type) == ("failed", "SessionMissing"), run.error


async def test_sessions_of_a_new_server_are_copied(oracle, web):
    server, service = oracle
    for values in (service.sessions, service.user_state, service.app_state):
        values.clear()
    await service.create_session(app_name="office", user_id="user", session_id="old", state={"n": 1})
    async with serve_remote(server, name="py") as runtimes:
        await runtimes.servers["py"].wait_until_synchronized()
        row = await the_session()
        assert (row.session_id, row.app_name, row.mirrored.behind) == ("old", "office@py", "")
        card: AgentCard = await units_of_work.read(AgentCard.objects.get, app_name="office@py")
        assert card.status == AgentCard.Status.READY
        assert runtimes.servers["py"].remote.kind.endswith("for Python")
