"""Session paths of ADK's REST API: responses equal those of ADK's own server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

APP, USER = "weather", "ann"
SESSIONS = f"/apps/{APP}/users/{USER}/sessions"
JSON = {"Content-Type": "application/json"}
VARYING = {"id", "timestamp", "lastUpdateTime", "invocationId", "code", "hint"}


def comparable(value: Any, inside: str = "") -> Any:
    """Return an answer without what differs from one run to the next, and without what DevUI adds to errors."""
    if isinstance(value, list):
        return [comparable(item, inside) for item in value]
    if not isinstance(value, dict):
        return value
    values_by_key = {key: comparable(item, key) for key, item in value.items()}
    return (
        values_by_key
        if inside == "state"
        else {key: item for key, item in values_by_key.items() if key not in VARYING}
    )


async def both(
    web: httpx.AsyncClient, adk: httpx.AsyncClient, method: str, path: str, **options: Any
) -> httpx.Response:
    """Send a request to both servers, assert equal answers and return DevUI's."""
    ours, theirs = await asyncio.gather(
        web.request(method, path, **options), adk.request(method, path, **options)
    )
    assert ours.status_code == theirs.status_code, (ours.text, theirs.text)
    assert ours.headers["content-type"] == theirs.headers["content-type"]
    assert comparable(ours.json()) == comparable(theirs.json())
    return ours


async def test_health_and_version_are_those_of_adk(web, adk):
    await both(web, adk, "GET", "/health")
    await both(web, adk, "GET", "/version")


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"sessionId": "s1"},
        {"session_id": "s1", "state": {"a": 1}},
        {
            "sessionId": "s1",
            "state": {"a": {"b": [1, None, True]}, "user:tier": "gold", "app:v": 2, "temp:x": 1},
        },
        {"sessionId": "  padded  "},
        {"sessionId": ""},
        {"state": {}, "events": []},
        {"unknown": 1},
    ],
    ids=str,
)
async def test_a_created_session_is_answered_as_by_adk(web, adk, body):
    options = {} if body is None else {"json": body}
    created = (await both(web, adk, "POST", SESSIONS, **options)).json()
    assert created["appName"] == APP
    assert created["events"] == []


async def test_a_null_body_creates_a_session(web, adk):
    await both(web, adk, "POST", SESSIONS, content="null", headers=JSON)


async def test_session_is_fetched_listed_and_deleted_like_in_adk(web, adk):
    await both(web, adk, "POST", SESSIONS, json={"sessionId": "s1", "state": {"n": 1, "user:tier": "gold"}})
    await both(
        web, adk, "POST", SESSIONS, json={"sessionId": "s2", "state": {"app:v": 2, "user:tier": "silver"}}
    )
    listed = (await both(web, adk, "GET", SESSIONS)).json()
    assert [session["id"] for session in listed] == ["s1", "s2"]
    assert listed[0]["state"] == {"n": 1, "app:v": 2, "user:tier": "silver"}
    await both(web, adk, "GET", SESSIONS + "/s1")
    await both(web, adk, "DELETE", SESSIONS + "/s1")
    await both(web, adk, "DELETE", SESSIONS + "/s1")
    await both(web, adk, "GET", SESSIONS + "/s1")
    after = (await both(web, adk, "POST", SESSIONS, json={"sessionId": "s3"})).json()
    assert after["state"] == {"app:v": 2, "user:tier": "silver"}


async def test_unknown_session_has_adks_404(web, adk):
    answer = (await both(web, adk, "GET", SESSIONS + "/nobody")).json()
    assert answer["detail"] == "Session not found"
    assert answer["code"] == "session_not_found"
    assert "nobody" in answer["hint"]


async def test_existing_id_has_adks_error(web, adk):
    await both(web, adk, "POST", SESSIONS, json={"sessionId": "s1"})
    answer = await both(web, adk, "POST", SESSIONS, json={"sessionId": "s1"})
    assert answer.status_code == 409
    assert answer.json()["detail"] == "Session already exists: s1"
    await both(web, adk, "POST", SESSIONS + "/s1", json={})


async def test_the_deprecated_creation_takes_the_state_as_its_body(web, adk):
    await both(web, adk, "POST", SESSIONS + "/s1", json={"n": 1, "user:tier": "gold"})
    await both(web, adk, "POST", SESSIONS + "/s2")
    await both(web, adk, "POST", SESSIONS + "/s3", json=["no", "object"])
    await both(web, adk, "GET", SESSIONS)


@pytest.mark.parametrize("spelling", ["stateDelta", "state_delta"])
async def test_a_patch_appends_an_event_as_adk_does(web, adk, spelling):
    await both(web, adk, "POST", SESSIONS, json={"sessionId": "s1", "state": {"n": 1}})
    delta = {"n": None, "user:tier": "gold", "temp:x": {"y": 1}, "new": [1, 2]}
    answer = (await both(web, adk, "PATCH", SESSIONS + "/s1", json={spelling: delta})).json()
    assert answer["state"] == delta
    assert answer["events"][0]["actions"]["stateDelta"] == {
        key: delta[key] for key in ("n", "user:tier", "new")
    }
    assert answer["events"][0]["invocationId"].startswith("p-")
    stored = (await both(web, adk, "GET", SESSIONS + "/s1")).json()
    assert "temp:x" not in stored["state"]


@pytest.mark.parametrize(
    "body", [{}, {"stateDelta": None}, {"stateDelta": [1]}, [], "text", None, {"state": {}}], ids=str
)
async def test_a_patch_that_does_not_validate_is_refused_as_by_adk(web, adk, body):
    await both(web, adk, "POST", SESSIONS, json={"sessionId": "s1"})
    answer = await both(web, adk, "PATCH", SESSIONS + "/s1", content=json.dumps(body), headers=JSON)
    assert answer.status_code == 422


async def test_patch_of_unknown_session_is_404(web, adk):
    await both(web, adk, "PATCH", SESSIONS + "/nobody", json={"stateDelta": {}})


@pytest.mark.parametrize(
    "body",
    [
        {"sessionId": 7},
        {"state": []},
        {"events": {}},
        {"options": "x"},
        {"options": {"state": 1, "app_name": 2}},
        {"options": {"ttl": 1}},
        [],
        "text",
        3,
    ],
    ids=str,
)
async def test_a_creation_that_does_not_validate_is_refused_as_by_adk(web, adk, body):
    answer = await both(web, adk, "POST", SESSIONS, json=body)
    assert answer.status_code in {400, 422}
    assert answer.json().keys() == {"detail", "code", "hint"}


@pytest.mark.parametrize("content", ["{", "", "{'a': 1}", "[1,"])
async def test_a_body_that_is_no_json_is_refused_as_by_adk(web, adk, content):
    await both(web, adk, "PATCH", SESSIONS + "/s1", content=content, headers=JSON)


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", None])
async def test_json_under_another_content_type_is_refused_as_by_adk(web, adk, content_type):
    headers = {"Content-Type": content_type} if content_type else {}
    answer = await both(web, adk, "POST", SESSIONS, content='{"sessionId": "s1"}', headers=headers)
    assert answer.status_code == 422
    assert (await web.get(SESSIONS)).json() == []


async def test_eval_sessions_are_fetched_by_id_but_not_listed(web, adk):
    for session_id in ("adk-eval-session-1", "___eval___session___2", "mine"):
        await both(web, adk, "POST", SESSIONS, json={"sessionId": session_id})
    listed = (await both(web, adk, "GET", SESSIONS)).json()
    assert [session["id"] for session in listed] == ["mine"]
    await both(web, adk, "GET", SESSIONS + "/adk-eval-session-1")


async def test_the_file_beside_the_agent_seeds_a_session_and_the_caller_wins(web, adk, agents_dir):
    seed = json.loads((agents_dir / "writer" / "initial_state.json").read_text())
    path = "/apps/writer/users/ann/sessions"
    key = next(iter(seed))
    created = (await both(web, adk, "POST", path, json={"state": {key: "mine"}})).json()
    assert created["state"][key] == "mine"
    assert (await both(web, adk, "POST", path + "/s2")).json()["state"] == seed


@pytest.mark.parametrize("content", [b'{"city": "K\xf6ln"}', b"[" * 100_000], ids=["no UTF-8", "too deep"])
async def test_a_file_beside_the_agent_that_cannot_be_read_is_no_state(web, settings, tmp_path, content):
    settings.DEVUI_AGENTS_DIR = str(tmp_path)
    (tmp_path / "writer").mkdir()
    (tmp_path / "writer" / "agent.py").write_text("root_agent = None\n")
    (tmp_path / "writer" / "initial_state.json").write_bytes(content)
    created = await web.post("/apps/writer/users/ann/sessions", json={})
    assert created.status_code == 200
    assert created.json()["state"] == {}


async def test_app_without_agent_may_hold_sessions_like_in_adk(web, adk):
    await both(web, adk, "POST", "/apps/ghost/users/ann/sessions", json={"sessionId": "s1"})
    await both(web, adk, "GET", "/apps/ghost/users/ann/sessions/s1")
    assert (await both(web, adk, "GET", "/apps/ghost/users/nobody/sessions")).json() == []


async def test_a_method_that_no_route_has_is_refused_in_adks_words(web, adk):
    for method, path in (("PUT", SESSIONS), ("POST", "/health"), ("GET", "/run"), ("DELETE", "/list-apps")):
        answer = await both(web, adk, method, path)
        assert answer.status_code == 405
        assert answer.headers["allow"]


async def test_unknown_path_has_adks_404(web, adk):
    answer = await both(web, adk, "GET", "/apps/weather/nothing")
    assert answer.json()["code"] == "not_found"
