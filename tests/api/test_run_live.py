"""ADK's live socket through DevUI: both directions, access, closing."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput
from sessions_app.store.models import Run
from tests import web
from tests.api.live_sockets import (
    LIVE_AGENTS,
    closing_of,
    ended_run,
    next_agent_text,
    text_message,
)
from tests.patience import PATIENCE_S

Open = Callable[..., Any]

pytestmark = pytest.mark.asyncio(loop_scope="module")

SUPERVISED = LIVE_AGENTS


@pytest.fixture
def dial(shared_client: httpx.AsyncClient) -> Open:
    """Opens the live socket of a session."""

    def opened(session_id: str, more: str = "", **how: Any) -> Any:
        host = f"{shared_client.base_url.host}:{shared_client.base_url.port}"
        query = f"app_name=parrot&user_id=ann&session_id={session_id}{more}"
        # The handshake ends once the agent's process has started, which may take longer than the client's own 10 s.
        return connect(f"ws://{host}/run_live?{query}", proxy=None, open_timeout=PATIENCE_S, **how)

    return opened


async def new_session(shared_client: httpx.AsyncClient) -> str:
    return (await shared_client.post("/apps/parrot/users/ann/sessions", json={})).json()["id"]


async def test_a_live_run_is_talked_to_in_both_directions_and_stored(shared_client, supervisor, dial):
    session_id = await new_session(shared_client)
    async with dial(session_id, "&modalities=TEXT") as socket:
        await socket.send(text_message("hello"))
        assert await next_agent_text(socket) == "heard hello"
        await socket.send(text_message("again"))
        assert await next_agent_text(socket) == "heard again"
        sound = base64.b64encode(b"\0" * 8).decode()
        await socket.send(json.dumps({"blob": {"mime_type": "audio/pcm;rate=16000", "data": sound}}))
        assert await next_agent_text(socket) == "heard audio/pcm;rate=16000 of 8 bytes"
    run = await ended_run()
    assert run.source == "adk"
    stored = (await shared_client.get(f"/apps/parrot/users/ann/sessions/{session_id}")).json()
    texts = [event["content"]["parts"][0]["text"] for event in stored["events"] if event.get("content")]
    assert {"heard hello", "heard again"} <= set(texts)


async def test_frames_that_cannot_be_read_are_left_out_and_the_end_is_noticed(
    shared_client, supervisor, dial
):
    async with dial(await new_session(shared_client), "&modalities=TEXT") as socket:
        for frame in ("{", "[]", '{"content": 1}', '{"blob": {"data": "***"}}'):
            await socket.send(frame)
            await socket.send(text_message(f"hello after {frame}"))
            assert await next_agent_text(socket) == f"heard hello after {frame}"
    assert (await ended_run()).status == "cancelled"


async def test_an_agent_that_fails_closes_the_socket_with_its_error(shared_client, supervisor, dial):
    async with dial(await new_session(shared_client), "&modalities=TEXT") as socket:
        await socket.send(text_message("fail"))
        code, reason = await closing_of(socket)
    assert code == 1011
    assert "kaput" in reason
    assert (await ended_run()).status == "failed"


async def test_cancelling_the_run_closes_the_socket_with_the_reason(shared_client, supervisor, dial):
    async with dial(await new_session(shared_client), "&modalities=TEXT") as socket:
        await socket.send(text_message("hello"))
        assert await next_agent_text(socket) == "heard hello"
        run = await units_of_work.read(Run.objects.get)
        assert (await shared_client.post(f"/api/v1/runs/{run.pk}/cancel")).is_success
        assert await closing_of(socket) == (1000, "The run was cancelled.")
    assert (await ended_run()).status == "cancelled"


async def test_long_error_is_cut_to_fit_the_close_reason(shared_client, supervisor, dial):
    async with dial(await new_session(shared_client), "&modalities=TEXT") as socket:
        await socket.send(text_message("fail" + "天気が分かりません" * 20))
        code, reason = await closing_of(socket)
    assert code == 1011
    assert reason.startswith("kaput天気が分かりません")
    run = await ended_run()
    assert run.status == "failed"
    assert run.error.endswith("天気が分かりません")


async def test_process_death_closes_socket_with_reason(shared_client, supervisor, dial):
    async with dial(await new_session(shared_client), "&modalities=TEXT") as socket:
        await socket.send(text_message("die"))
        code, reason = await closing_of(socket)
    assert code == 1011
    assert "parrot" in reason
    assert "SIGKILL" in reason
    assert (await ended_run()).status == "crashed"


async def test_socket_waits_more_than_ten_seconds_for_an_agent_to_start():
    """`websockets` itself gives a server 10 s for the handshake, which ends only when the agent has started."""

    async def answer_late(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await asyncio.sleep(11)
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": "hello"})

    async with (
        web.serve(answer_late) as host,
        connect(f"ws://{host}/", proxy=None, open_timeout=PATIENCE_S) as socket,
    ):
        assert await socket.recv() == "hello"


async def test_unknown_session_closes_socket_like_adk(supervisor, dial):
    async with dial("nobody") as socket:
        assert await closing_of(socket) == (1002, "Session not found")


async def test_unknown_app_closes_socket(shared_client, supervisor):
    host = f"{shared_client.base_url.host}:{shared_client.base_url.port}"
    query = "app_name=nobody&user_id=ann&session_id=s"
    async with connect(f"ws://{host}/run_live?{query}", proxy=None) as socket:
        code, reason = await closing_of(socket)
    assert code == 1008
    assert "nobody" in reason


async def test_a_query_that_adk_refuses_opens_no_socket(shared_client, supervisor, dial):
    for more in ("&modalities=SMELL", "&save_live_blob=perhaps"):
        with pytest.raises(InvalidStatus) as refusal:
            await dial(await new_session(shared_client), more)
        assert refusal.value.response.status_code == 403, more


async def test_runtime_refuses_query_without_failing(shared_client, supervisor):
    client = await supervisor.client("parrot")
    path = f"/run_live?app_name=parrot&user_id=ann&session_id={await new_session(shared_client)}&modalities=SMELL"
    with pytest.raises(BadInput, match=r"refuses the socket \(403\)"):
        async with client.open_socket(path, {}):
            pass


async def test_a_page_of_another_site_opens_no_socket(supervisor, dial):
    with pytest.raises(InvalidStatus) as refusal:
        await dial("s", origin="http://evil.example")
    assert refusal.value.response.status_code == 403


async def test_server_without_agents_closes_socket(shared_client, dial):
    async with dial("s") as socket:
        assert await closing_of(socket) == (1011, "This process runs no agents.")
