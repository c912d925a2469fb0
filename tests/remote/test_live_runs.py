"""Live runs of remote agents: ADK's socket in both directions, recorded, cancelled and refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import pytest_asyncio
from django.test import AsyncClient
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from devui.remote import live_runs
from sessions_app.runs import runtime_client as runs
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Event, Run
from tests.api.live_sockets import LIVE_AGENTS, closing_of, ended_run, next_agent_text, text_message
from tests.api.peer import adk_server
from tests.pages.html import parse
from tests.patience import PATIENCE_S
from tests.remote.conftest import connect_runtimes, start_run, the_session
from tests.remote.synthetic_servers import JavaScript, Rust
from tests.web import serve

SESSIONS = "/apps/parrot@far/users/ann/sessions"


@pytest.fixture(scope="module")
def oracle() -> tuple[Any, InMemorySessionService]:
    """ADK's server with an agent that is talked to, which takes a while to make, and its sessions."""
    service = InMemorySessionService()
    return adk_server(LIVE_AGENTS, service), service


@pytest_asyncio.fixture
async def there(oracle: tuple[Any, InMemorySessionService], web: httpx.AsyncClient) -> AsyncIterator[str]:
    """The address of that server, to which DevUI is connected as `far`, with one session."""
    server, service = oracle
    service.sessions.clear()
    async with serve(server) as address, connect_runtimes(f"far=http://{address}"):
        created = await web.post(SESSIONS, json={"sessionId": "s1"})
        assert created.status_code == 200, created.text
        yield f"http://{address}"


@pytest_asyncio.fixture
async def here(web: httpx.AsyncClient) -> AsyncIterator[str]:
    """The address at which DevUI is served."""
    from devui.asgi import application

    async with serve(application) as address:
        yield address


def dial(here: str, session_id: str = "s1", more: str = "", app: str = "parrot@far", **how: Any) -> Any:
    query = f"app_name={app}&user_id=ann&session_id={session_id}&modalities=TEXT{more}"
    return connect(f"ws://{here}/run_live?{query}", proxy=None, open_timeout=PATIENCE_S, **how)


def texts() -> list[str]:
    events = Event.objects.order_by("seq").values_list("data", flat=True)
    contents = (json.loads(data).get("content") for data in events)
    return [content["parts"][0]["text"] for content in contents if content]


async def test_live_run_is_bidirectional_and_copied(there, here):
    async with dial(here) as socket:
        await socket.send(text_message("hello"))
        assert await next_agent_text(socket) == "heard hello"
        await socket.send(text_message("again"))
        assert await next_agent_text(socket) == "heard again"
        await socket.send('{"close": true}')
    run = await ended_run()
    assert (run.status, run.error, run.source) == ("done", "", "adk")
    assert json.loads(run.request) == {"live": True}
    async with httpx.AsyncClient(base_url=there, trust_env=False) as client:
        events = (await client.get("/apps/parrot/users/ann/sessions/s1")).json()["events"]
    assert run.invocation_id == events[0]["invocationId"]
    assert await units_of_work.read(
        lambda: list(Event.objects.order_by("seq").values_list("event_id", flat=True))
    ) == [event["id"] for event in events]
    assert {"hello", "heard hello", "heard again"} <= set(await units_of_work.read(texts))
    assert (await the_session()).mirrored.behind == ""


async def test_silent_server_is_left_after_the_client_closes(there, here, monkeypatch):
    monkeypatch.setattr(live_runs, "SILENCE_S", 0.2)
    async with dial(here) as socket:
        await socket.send(text_message("hello"))
        assert await next_agent_text(socket) == "heard hello"
        await socket.send('{"close": true}')
        assert await closing_of(socket) == live_runs.FINISHED
    assert (await ended_run()).status == "done"
    assert "heard hello" in await units_of_work.read(texts)


@pytest.mark.soak
async def test_copy_is_updated_during_the_live_run(there, here):
    async with dial(here) as socket:
        await socket.send(text_message("hello"))
        assert await next_agent_text(socket) == "heard hello"
        run = await units_of_work.read(Run.objects.get)
        client = await runs.provider().client("parrot@far")
        frames = [frame async for frame in until_stored(client.stream(run.pk))]
        assert frames[-1]["seq"] >= 1
        assert "hello" in await units_of_work.read(texts)
        assert (await units_of_work.read(Run.objects.get)).status == "running"


async def until_stored(frames: AsyncIterator[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    async for frame in frames:
        yield frame
        if frame["type"] == "stored":
            return


async def test_disconnect_cancels_the_live_run(there, here):
    async with dial(here) as socket:
        await socket.send(text_message("hello"))
        await next_agent_text(socket)
    assert (await ended_run()).status == "cancelled"


async def test_a_run_that_is_cancelled_closes_the_socket(there, here, web):
    async with dial(here) as socket:
        await socket.send(text_message("hello"))
        await next_agent_text(socket)
        run = await units_of_work.read(Run.objects.get)
        cancelled = await web.post(f"/api/v1/runs/{run.pk}/cancel")
        assert cancelled.json()["status"] == "cancelled"
        assert await closing_of(socket) == (1000, "The run was cancelled.")


@pytest.mark.soak
async def test_an_agent_that_fails_closes_the_socket_with_its_error(there, here):
    async with dial(here) as socket:
        await socket.send(text_message("fail"))
        code, reason = await closing_of(socket)
    run = await ended_run()
    assert code == 1011
    assert "kaput" in reason
    assert (run.status, "kaput" in run.error) == ("failed", True)


async def test_missing_session_is_reported_like_adk(there, here):
    async with dial(here, "nobody") as socket:
        assert await closing_of(socket) == (1002, "Session not found")
    assert await units_of_work.read(Run.objects.count) == 0


async def test_refused_query_opens_no_socket_and_fails_the_run(there, here):
    with pytest.raises(InvalidStatus) as refusal:
        await dial(here, more="&modalities=SMELL")
    assert refusal.value.response.status_code == 403
    run = await ended_run()
    assert (run.status, run.error_type) == ("failed", "BadInput")
    assert "refuses the socket (403)" in run.error


async def test_unreachable_server_closes_with_a_reason(there, here):
    (await runs.provider().client("parrot@far"))._server.http.base = "http://127.0.0.1:1"
    async with dial(here) as socket:
        code, reason = await closing_of(socket)
    assert code == 1011
    assert "cannot open a live connection" in reason
    assert (await ended_run()).error_type == "NotReached"


@pytest.mark.soak
async def test_a_page_of_another_site_opens_no_socket(there, here):
    with pytest.raises(InvalidStatus) as refusal:
        await dial(here, origin="http://evil.example")
    assert refusal.value.response.status_code == 403
    assert await units_of_work.read(Run.objects.count) == 0


@asynccontextmanager
async def answering(web: httpx.AsyncClient, status: int, body: bytes = b"") -> AsyncIterator[None]:
    """A server, connected as `far`, that answers who wants to speak with its agent live by an answer of HTTP."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "websocket"
        headers = [(b"location", b"ws://127.0.0.1:1/run_live")]
        await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": body})

    remote = JavaScript()
    async with (
        serve(remote.app(), server_header=False) as address,
        connect_runtimes(f"far=http://{address}") as runtimes,
    ):
        await web.post("/apps/clerk@far/users/ann/sessions", json={"sessionId": "s1"})
        runtimes.servers["far"].copies.dialect = runtimes.servers["far"].copies.dialect.__class__()
        async with serve(answer) as other:
            runtimes.servers["far"].http.base = f"http://{other}"
            yield


@pytest.mark.soak
async def test_redirect_of_a_socket_is_not_followed(web, here):
    async with answering(web, 302), dial(here, app="clerk@far") as socket:
        code, reason = await closing_of(socket)
    assert (code, "redirects (302), and redirects are not followed" in reason) == (1011, True)
    assert (await ended_run()).error_type == "NotReached"


@pytest.mark.soak
async def test_server_failure_closes_with_status_and_message(web, here):
    async with answering(web, 500, b'{"detail": "out of tapes"}'), dial(here, app="clerk@far") as socket:
        code, reason = await closing_of(socket)
    assert (code, "answers 500: out of tapes" in reason) == (1011, True)
    run = await ended_run()
    assert (run.error_type, "modalities" in run.error) == ("UpstreamFailed", False)


async def test_disconnect_in_silence_leaves_no_task(there, here):
    async with dial(here) as socket:
        await socket.send(text_message("hello"))
        await next_agent_text(socket)
    assert (await ended_run()).status == "cancelled"
    assert not [task for task in asyncio.all_tasks() if "Queue.get" in str(task.get_coro())]


@pytest.mark.parametrize("language", [JavaScript, Rust])
async def test_live_runs_are_offered_only_where_supported(web, here, language):
    remote = language()
    async with serve(remote.app(), server_header=False) as address, connect_runtimes(f"far=http://{address}"):
        await web.post("/apps/clerk@far/users/ann/sessions", json={"sessionId": "s1"})
        session = await the_session()
        page = (await AsyncClient().get(f"/sessions/id/{session.pk}/")).content.decode()
        live = parse((await AsyncClient().get(f"/runs/live/{session.pk}/")).content)
        with pytest.raises(InvalidStatus) as refusal:
            await dial(here, app="clerk@far")
    assert refusal.value.response.status_code == 403
    assert f"/runs/live/{session.pk}/" not in page
    assert f"http://{address}" in live.one("div", css="empty").text
    assert "does not support live runs" in live.one("div", css="empty").text


async def test_page_offers_live_runs_of_python_agents(there, web):
    session = await the_session()
    await start_run(web, session.pk, "hello")
    page = (await AsyncClient().get(f"/sessions/id/{session.pk}/")).content.decode()
    live = parse((await AsyncClient().get(f"/runs/live/{session.pk}/")).content)
    assert f"/runs/live/{session.pk}/" in page
    assert "app_name=parrot%40far" in live.one("section", css="live").attrs["data-socket"]
