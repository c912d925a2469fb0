"""Running agents through ADK's paths: the body is forwarded to ADK's server, the response is streamed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from sessions_app.runs import runtime_client as runs
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Event
from tests.api.agents.slow.agent import WORDS
from tests.patience import PATIENCE_S

SESSIONS = "/apps/slow/users/ann/sessions"


async def new_session(web: httpx.AsyncClient) -> str:
    return (await web.post(SESSIONS, json={})).json()["id"]


def message(session_id: str, text: str = "short", **more: Any) -> dict[str, Any]:
    parts = [{"text": text}]
    return {
        "appName": "slow",
        "userId": "ann",
        "sessionId": session_id,
        "newMessage": {"role": "user", "parts": parts},
        **more,
    }


async def frames(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in response.aiter_lines():
        if line:
            assert line.startswith("data: ")
            yield json.loads(line.removeprefix("data: "))


async def events_stored() -> int:
    return await units_of_work.read(Event.objects.count)


@pytest.mark.parametrize("spelling", ["camel", "snake"])
async def test_run_returns_and_stores_events(web, peer, spelling):
    body = message(await new_session(web))
    if spelling == "snake":
        body = {
            "app_name": "slow",
            "user_id": "ann",
            "session_id": body["sessionId"],
            "new_message": body["newMessage"],
        }
    answer = await web.post("/run", json=body)
    assert answer.status_code == 200
    assert [event["content"]["parts"][0]["text"] for event in answer.json()] == ["word 0"]
    session_id = body.get("sessionId") or body["session_id"]
    stored = (await web.get(f"{SESSIONS}/{session_id}")).json()
    assert [event["author"] for event in stored["events"]] == ["user", "slow"]
    assert stored["events"][1] == answer.json()[0]


async def test_run_sse_streams_each_event_as_it_comes(http_client, peer):
    body = message(await new_session(http_client), "count")
    async with http_client.stream("POST", "/run_sse", json=body) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        first = await anext(frames(response))
    assert first["content"]["parts"][0]["text"] == "word 0"


async def leave_early(web: httpx.AsyncClient, path: str, body: dict[str, Any]) -> None:
    """Send a request and go away when the agent has said something."""
    asking = asyncio.create_task(web.post(path, json=body))
    while await events_stored() < 3:
        assert not asking.done()
        await asyncio.sleep(0.02)
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking


async def wait_for_file(file: Path) -> None:
    """Return when the agent has made the file, which it does at its end."""
    async with asyncio.timeout(PATIENCE_S):
        while not await asyncio.to_thread(file.exists):  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("path", ["/run", "/run_sse"])
async def test_client_disconnect_cancels_run(http_client, peer, path, tmp_path):
    ended = tmp_path / "ended"
    await leave_early(http_client, path, message(await new_session(http_client), f"count {ended}"))
    await wait_for_file(ended)
    assert await events_stored() < WORDS


async def test_an_agent_that_fails_mid_stream_is_an_error_frame_of_adk(web, peer):
    body = message(await new_session(web), "fail")
    async with web.stream("POST", "/run_sse", json=body) as response:
        received = [frame async for frame in frames(response)]
    assert received[-1]["error"] == "ValueError: kaput"
    assert received[-1]["error_details"]["error_type"] == "ValueError"


async def test_an_agent_that_fails_in_run_is_an_error_without_a_traceback(web, peer):
    answer = await web.post("/run", json=message(await new_session(web), "fail"))
    assert answer.status_code == 500
    assert answer.json().keys() == {"detail", "code", "hint"}
    assert answer.json()["code"] == "agent_failed"
    assert "Traceback" not in answer.text


async def test_a_process_that_dies_mid_stream_is_an_error_frame(http_client, start_peer):
    start_peer()
    body = message(await new_session(http_client), "die")
    async with http_client.stream("POST", "/run_sse", json=body) as response:
        assert response.status_code == 200
        received = [frame async for frame in frames(response)]
    assert [frame["content"]["parts"][0]["text"] for frame in received[:-1]] == ["word 0", "word 1"]
    assert received[-1]["error"].startswith("RuntimeUnavailable: ")
    assert received[-1]["code"] == "runtime_unavailable"
    assert (await http_client.get("/health")).status_code == 200


async def test_a_process_that_dies_before_it_answered_is_503(http_client, start_peer):
    start_peer()
    answer = await http_client.post("/run", json=message(await new_session(http_client), "die"))
    assert answer.status_code == 503
    assert answer.json()["code"] == "runtime_unavailable"
    again = await http_client.post("/run_sse", json=message(await new_session(http_client)))
    assert again.status_code == 503


@pytest.mark.parametrize("path", ["/run", "/run_sse"])
async def test_unknown_session_is_404_before_stream(web, peer, path):
    answer = await web.post(path, json=message("nobody"))
    assert answer.status_code == 404
    assert answer.json()["detail"] == "Session not found: nobody"
    assert answer.json()["code"] == "session_not_found"


@pytest.mark.parametrize("path", ["/run", "/run_sse"])
async def test_unknown_app_is_404(web, peer, path):
    answer = await web.post(path, json={**message("s1"), "appName": "ghost"})
    assert answer.status_code == 404
    assert "ghost" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/run", "/run_sse"])
async def test_broken_app_returns_its_error(web, peer, path):
    answer = await web.post(path, json={**message("s1"), "appName": "broken"})
    assert answer.status_code >= 500
    assert answer.json()["hint"]
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("path", ["/run", "/run_sse"])
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"userId": "ann", "sessionId": "s1"},
        {"appName": "", "userId": "ann", "sessionId": "s1"},
        {"appName": 7, "userId": "ann", "sessionId": "s1"},
        {"appName": "slow", "userId": "ann"},
        {"appName": "slow", "userId": "ann", "sessionId": "s1", "newMessage": {"nope": 1}},
        [],
        "text",
        None,
    ],
    ids=str,
)
async def test_a_body_that_does_not_validate_is_refused_as_by_adk(web, peer, path, body):
    headers, content = {"Content-Type": "application/json"}, json.dumps(body).encode()
    ours = await web.post(path, content=content, headers=headers)
    async with peer.open("POST", path, headers=headers, content=content) as upstream:
        theirs = json.loads(await upstream.aread())
    assert ours.status_code == upstream.status_code
    assert ours.json()["detail"] == theirs["detail"]
    assert ours.json()["hint"]


async def test_the_default_app_is_used_as_in_adk(web, peer, monkeypatch):
    monkeypatch.setenv("ADK_DEFAULT_APP_NAME", "ghost")
    answer = await web.post("/run", json={"userId": "ann", "sessionId": "s1"})
    assert "ghost" in answer.json()["detail"]


async def test_server_without_agents_refuses_run(web):
    runs.register(None)
    for answer in (await web.post("/run", json=message("s1")), await web.get("/list-apps")):
        assert answer.status_code == 503
        assert answer.json()["code"] == "runtime_unavailable"


async def test_list_apps_names_the_apps(web, peer):
    assert (await web.get("/list-apps", params={"relative_path": "./"})).json() == ["broken", "slow"]
    assert (await web.get("/list-apps", params={"detailed": "perhaps"})).status_code == 422


def restored_event(**fields: Any) -> dict[str, Any]:
    content = {"role": "user", "parts": [{"text": "hello"}]}
    return {
        "author": "user",
        "invocationId": "i1",
        "id": "e1",
        "timestamp": 12.5,
        "content": content,
        **fields,
    }


async def test_a_session_with_events_is_created_by_adk_itself(web, peer):
    body = {
        "sessionId": "s1",
        "state": {"n": 1},
        "events": [restored_event(), restored_event(id="e2", author="slow")],
    }
    created = await web.post(SESSIONS, json=body)
    assert created.status_code == 200
    assert [event["id"] for event in created.json()["events"]] == ["e1", "e2"]
    stored = (await web.get(SESSIONS + "/s1")).json()
    assert stored == created.json()
    assert "customMetadata" not in stored["events"][0]
    private = await units_of_work.read(lambda: Event.objects.get(event_id="e1").private)
    assert json.loads(private)["customMetadata"] == {"__adk_internal_restored_event": True}


@pytest.mark.parametrize("fields", [{"actions": {"stateDelta": {"a": 1}}}, {"longRunningToolIds": ["x"]}])
async def test_events_with_actions_refused_by_adk_are_imported(web, peer, fields):
    answer = await web.post(SESSIONS, json={"events": [restored_event(**fields)]})
    assert answer.status_code == 200
    (event,) = answer.json()["events"]
    changed_event = {**event, "actions": {"stateDelta": event["actions"]["stateDelta"]}}
    assert changed_event.items() >= fields.items()


async def test_a_malformed_event_is_refused_and_nothing_is_stored(web, peer):
    answer = await web.post(SESSIONS, json={"events": [restored_event(content={"parts": [{"nope": 1}]})]})
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"][:3] == ["body", "events", 0]
    assert (await web.get(SESSIONS)).json() == []


def nest(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def calling(levels: int) -> dict[str, Any]:
    """Return a body whose event calls a tool with an argument that is nested; the call stands 8 levels deep."""
    content = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"x": nest(levels)}}}]}
    return {"sessionId": "deep", "events": [restored_event(author="slow", content=content)]}


async def test_events_at_adks_depth_limit_are_stored(web, peer):
    created = await web.post(SESSIONS, json=calling(242))
    assert created.status_code == 200
    assert created.json()["events"][0]["content"] == calling(242)["events"][0]["content"]
    assert (await web.get(SESSIONS + "/deep")).json() == created.json()


@pytest.mark.parametrize("levels", [243, 400, 700])
async def test_too_deeply_nested_events_are_refused_before_storing(web, peer, levels):
    answer = await web.post(SESSIONS, json=calling(levels))
    assert answer.status_code == 400
    assert answer.json()["code"] == "bad_input"
    assert "deeper than 250 levels" in answer.json()["detail"]
    assert "Nest it less" in answer.json()["hint"]
    assert (await web.get(SESSIONS)).json() == []
