"""ADK's paths beyond ADK's in-memory server: titles, runs, realms, credentials, any id, any length."""

from __future__ import annotations

import json
import time
from functools import partial
from urllib.parse import quote

import pytest

from sessions_app.runs import lifecycle
from sessions_app.store.database import units_of_work
from sessions_app.store.events import build_record
from sessions_app.store.models import AgentSession, Event, Run, SessionState
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests.hostile_ids import HOSTILE_IDS

SESSIONS = "/apps/weather/users/ann/sessions"
KEY = SessionKey("", "weather", "ann", "s1")
TITLE = {"stateDelta": {"__session_metadata__": {"displayName": "Rain in Paris"}}}


def wire_event(event_id: str, **fields: object) -> dict[str, object]:
    parts = [{"text": f"text of {event_id}"}]
    content = {"role": "model", "parts": parts}
    return {
        "id": event_id,
        "invocationId": "i1",
        "author": "weather",
        "timestamp": time.time(),
        "content": content,
        **fields,
    }


def path_of(*ids: str) -> str:
    app, user, session = (quote(part, safe="") for part in ids)
    return f"/apps/{app}/users/{user}/sessions/{session}"


async def test_title_is_stored_beside_state_without_history(web):
    await web.post(SESSIONS, json={"sessionId": "s1", "state": {"n": 1}})
    answer = await web.patch(SESSIONS + "/s1", json=TITLE)
    assert answer.status_code == 200
    assert answer.json()["events"] == []
    row = await units_of_work.read(AgentSession.objects.get)
    assert (row.title, row.revision) == ("Rain in Paris", 0)
    assert await units_of_work.read(lambda: list(SessionState.objects.values_list("key", flat=True))) == ["n"]


async def test_adks_front_end_finds_the_title_where_it_left_it(web):
    await web.post(SESSIONS, json={"sessionId": "s1"})
    await web.patch(SESSIONS + "/s1", json=TITLE)
    for session in (*(await web.get(SESSIONS)).json(), (await web.get(SESSIONS + "/s1")).json()):
        assert session["state"] == TITLE["stateDelta"]


async def test_title_with_unchanged_state_writes_only_title(web):
    state = {"n": 1.0, "list": [True, {"b": None, "a": 1}], "user:tier": "gold", "app:motd": "hi"}
    await web.post(SESSIONS, json={"sessionId": "s1", "state": state})
    body = (await web.get(SESSIONS)).json()[0]["state"]
    request_body = {**body, "n": 1, "list": [True, {"a": 1, "b": None}], **TITLE["stateDelta"]}
    answer = (await web.patch(SESSIONS + "/s1", json={"stateDelta": request_body})).json()
    assert answer["events"] == []
    assert answer["state"] == {**body, **TITLE["stateDelta"]}
    row = await units_of_work.read(AgentSession.objects.get)
    assert (row.title, row.revision) == ("Rain in Paris", 0)


@pytest.mark.parametrize("other", [{"n": 2}, {"n": True}, {"n": "1"}, {"new": 1}, {"n": [1]}], ids=str)
async def test_a_title_with_a_state_that_is_another_changes_the_state(web, other):
    await web.post(SESSIONS, json={"sessionId": "s1", "state": {"n": 1}})
    request_body = {"stateDelta": {**other, **TITLE["stateDelta"]}}
    answer = (await web.patch(SESSIONS + "/s1", json=request_body)).json()
    assert len(answer["events"]) == 1
    assert answer["state"] == {"n": 1, **request_body["stateDelta"]}


async def test_title_at_creation_is_stored_beside_state(web):
    created = await web.post(SESSIONS, json={"state": {"n": 1, **TITLE["stateDelta"]}})
    assert created.json()["state"] == {"n": 1, **TITLE["stateDelta"]}
    assert (await units_of_work.read(AgentSession.objects.get)).title == "Rain in Paris"
    assert await units_of_work.read(lambda: list(SessionState.objects.values_list("key", flat=True))) == ["n"]


@pytest.mark.parametrize(
    "delta",
    [
        {"__session_metadata__": {"displayName": "x"}, "n": 1},
        {"__session_metadata__": {"displayName": "x", "colour": "red"}},
        {"__session_metadata__": {"displayName": 7}},
        {"__session_metadata__": None},
    ],
    ids=str,
)
async def test_metadata_that_is_more_than_a_title_is_state(web, delta):
    await web.post(SESSIONS, json={"sessionId": "s1"})
    answer = (await web.patch(SESSIONS + "/s1", json={"stateDelta": delta})).json()
    assert len(answer["events"]) == 1
    assert answer["state"] == delta


@pytest.mark.parametrize(("method", "body"), [("PATCH", {"stateDelta": {"n": 2}}), ("DELETE", None)])
async def test_a_change_while_a_run_is_active_is_refused_naming_the_run(web, method, body):
    await web.post(SESSIONS, json={"sessionId": "s1", "state": {"n": 1}})
    session = await units_of_work.read(AgentSession.objects.get)
    run = await units_of_work.write(lifecycle.create_run, session.pk, {})
    answer = await web.request(method, SESSIONS + "/s1", json=body)
    assert answer.status_code == 409
    assert answer.json()["code"] == "session_busy"
    assert run.id in answer.json()["detail"]
    assert (await web.get(SESSIONS + "/s1")).json()["state"] == {"n": 1}
    assert (await web.patch(SESSIONS + "/s1", json=TITLE)).status_code == 200
    await units_of_work.write(lifecycle.finish, run.id, Run.Status.DONE)
    assert (await web.request(method, SESSIONS + "/s1", json=body)).status_code == 200


async def test_session_of_attempt_is_readable_but_not_listed_or_changed(web):
    attempt = KEY._replace(realm="eval/run1/case1/0")
    await units_of_work.write(writes.create_session, attempt, {"n": 1, "user:tier": "gold"})
    response = await web.get(SESSIONS + "/s1")
    assert response.json()["state"] == {"n": 1, "user:tier": "gold"}
    assert (await web.get(SESSIONS)).json() == []
    assert (await web.patch(SESSIONS + "/s1", json={"stateDelta": {"n": 2}})).status_code == 404
    assert (await web.delete(SESSIONS + "/s1")).status_code == 200
    assert (await web.get(SESSIONS + "/s1")).status_code == 200


async def test_real_session_wins_over_attempt_with_same_id(web):
    await units_of_work.write(
        writes.create_session, KEY._replace(realm="eval/run1/case1/0"), {"n": "attempt"}
    )
    await units_of_work.write(writes.create_session, KEY, {"n": "real"})
    assert (await web.get(SESSIONS + "/s1")).json()["state"] == {"n": "real"}


async def test_secrets_and_internals_of_events_and_state_are_left_out(web):
    credential = {"authType": "apiKey", "apiKey": "hush"}
    await web.post(SESSIONS, json={"sessionId": "s1", "state": {"held": credential, "user:held": credential}})
    metadata = {"__adk_internal_mark": True, "mine": 1}
    actions = {"stateDelta": {"again": credential}}
    event = wire_event("e1", actions=actions, customMetadata=metadata)
    await units_of_work.write(writes.append_event, KEY, build_record(event))
    answers = [await web.get(SESSIONS + "/s1"), await web.get(SESSIONS)]
    for answer in answers:
        assert "hush" not in answer.text
        assert "__adk_internal" not in answer.text
    session = answers[0].json()
    assert session["state"]["held"] == {"authType": "apiKey"}
    assert session["events"][0]["customMetadata"] == {"mine": 1}
    private = await units_of_work.read(lambda: Event.objects.get().private)
    assert "hush" in private


async def test_any_id_names_its_own_session_on_adks_paths(web):
    for hostile in HOSTILE_IDS:
        ids = (f"a{hostile}"[:512].strip(), hostile, hostile)
        created = await web.post(path_of(*ids), json={"n": 1})
        assert created.status_code == 200, hostile
        body = (await web.get(path_of(*ids))).json()
        assert (body["appName"], body["userId"], body["id"]) == ids
        patched = await web.patch(path_of(*ids), json={"stateDelta": {"n": 2}})
        assert patched.json()["state"] == {"n": 2}, hostile
        listed = (await web.get(path_of(*ids).rpartition("/")[0])).json()
        assert [session["id"] for session in listed] == [hostile]
    for hostile in HOSTILE_IDS:
        ids = (f"a{hostile}"[:512].strip(), hostile, hostile)
        assert (await web.delete(path_of(*ids))).status_code == 200
        assert (await web.get(path_of(*ids))).status_code == 404, hostile


@pytest.mark.parametrize("hostile", ["a\x00b", "x" * 513], ids=["NUL", "too long"])
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
async def test_an_id_that_no_store_can_hold_is_refused(web, hostile, method):
    answer = await web.request(method, path_of("weather", "ann", hostile), json={"stateDelta": {}})
    assert answer.status_code == 400
    assert answer.json()["code"] == "bad_input"
    assert (await web.get(path_of("weather", hostile, "s1").rpartition("/")[0])).status_code == 400


async def test_an_empty_user_is_a_user(web):
    await web.post("/apps/weather/users//sessions", json={"sessionId": "s1"})
    assert (await web.get("/apps/weather/users//sessions/s1")).json()["userId"] == ""


async def test_a_session_of_many_events_is_whole_and_in_order(web):
    from sessions_app.api import snapshots

    await web.post(SESSIONS, json={"sessionId": "s1"})
    many = snapshots.BATCH + 7
    append = partial(_append_many, many)
    await units_of_work.write(append)
    events = (await web.get(SESSIONS + "/s1")).json()["events"]
    assert [event["id"] for event in events] == [f"e{number}" for number in range(many)]


def _append_many(count: int) -> None:
    for number in range(count):
        writes.append_event(KEY, build_record(wire_event(f"e{number}")))


async def test_invalid_unicode_is_stored_readably(web):
    headers = {"Content-Type": "application/json"}
    body = '{"sessionId": "s1", "state": {"lone": "\\ud800", "nul": "\\u0000", "nan": NaN, "big": 1e400}}'
    created = await web.post(SESSIONS, content=body, headers=headers)
    state = created.json()["state"]
    assert state == {"lone": "\N{REPLACEMENT CHARACTER}", "nul": "\x00", "nan": "NaN", "big": "Infinity"}
    assert json.loads((await web.get(SESSIONS)).text)[0]["state"] == state
