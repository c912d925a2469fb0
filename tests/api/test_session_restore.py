"""Sessions exported by ADK's front end are restored completely; ADK's own server refuses them."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from sessions_app.store.database import units_of_work
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes

SESSIONS = "/apps/slow/users/ann/sessions"
OPEN_CALL = {
    "id": "e2",
    "invocationId": "i1",
    "author": "slow",
    "timestamp": 1_700_000_002.5,
    "content": {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "ask", "args": {"n": 1}}}]},
    "actions": {"stateDelta": {"n": 2, "user:tier": "gold"}, "artifactDelta": {"a.txt": 0}},
    "longRunningToolIds": ["c"],
}
SAID = {
    "id": "e1",
    "invocationId": "i1",
    "author": "user",
    "timestamp": 1_700_000_001.5,
    "content": {"role": "user", "parts": [{"text": "hello"}]},
}


async def post_session(web: httpx.AsyncClient, status: int = 200, **body: Any) -> Any:
    answer = await web.post(SESSIONS, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_session_with_agent_state_is_restored_with_its_times(web, peer):
    state = {"n": 2, "given": True, "user:tier": "gold", "__session_metadata__": {"displayName": "Mine"}}
    response = await post_session(web, state=state, events=[SAID, OPEN_CALL])
    assert [event["id"] for event in response["events"]] == ["e1", "e2"]
    assert [event["timestamp"] for event in response["events"]] == [SAID["timestamp"], OPEN_CALL["timestamp"]]
    assert response["events"][1]["actions"]["stateDelta"] == OPEN_CALL["actions"]["stateDelta"]
    assert response["events"][1]["longRunningToolIds"] == ["c"]
    assert response["state"] == state
    again = (await web.get(f"{SESSIONS}/{response['id']}")).json()
    assert again == response


async def test_events_without_timestamp_get_current_time(web, peer):
    before = time.time()
    untimed = {key: value for key, value in OPEN_CALL.items() if key != "timestamp"}
    response = await post_session(web, events=[untimed])
    assert before <= response["events"][0]["timestamp"] == response["lastUpdateTime"] <= time.time()


async def test_export_round_trip_keeps_everything(web, peer):
    response = await post_session(web, state={"n": 2, "user:tier": "gold"}, events=[SAID, OPEN_CALL])
    exported = (await web.get(f"{SESSIONS}/{response['id']}")).json()
    back = await post_session(web, state=exported["state"], events=exported["events"])
    assert back["id"] != response["id"]
    assert (back["events"], back["state"]) == (exported["events"], exported["state"])


async def test_existing_shared_state_keeps_its_value(web, peer):
    await units_of_work.write(
        writes.create_session, SessionKey("", "slow", "ann", "before"), {"user:tier": "silver"}
    )
    response = await post_session(web, state={"user:tier": "gold"}, events=[SAID, OPEN_CALL])
    assert response["state"]["user:tier"] == "silver"


async def test_restored_session_without_deltas_is_created_by_adk_server(web, peer):
    response = await post_session(web, sessionId="s1", events=[SAID])
    assert [event["id"] for event in response["events"]] == ["e1"]
    assert response["id"] == "s1"


async def test_existing_id_and_invalid_event_are_refused(web, peer):
    await post_session(web, sessionId="s1", events=[SAID, OPEN_CALL])
    assert (await post_session(web, 409, sessionId="s1", events=[SAID, OPEN_CALL]))[
        "code"
    ] == "already_exists"
    assert isinstance((await post_session(web, 422, events=[{"content": 3}]))["detail"], list)


@pytest.mark.parametrize("session_id", ["x" * 600, "a\u0000b"])
async def test_an_id_that_no_store_can_hold_is_refused(web, peer, session_id):
    assert (await post_session(web, 400, sessionId=session_id, events=[SAID, OPEN_CALL]))["hint"]
