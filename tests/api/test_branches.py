"""DevUI's API for rewinding, forking and comparing."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from sessions_app.runs import lifecycle
from sessions_app.store.database import units_of_work
from sessions_app.store.events import build_record
from sessions_app.store.models import AgentSession, Event
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests.api.builders import append, create, wire_event


async def create_two_invocations() -> AgentSession:
    """Return a session of two invocations: e1, e2 of i1, e3 of i2."""
    session = await create("s1", {"seed": 1, "user:tier": "free"})
    await append(session, "e1", {"n": 1})
    await append(session, "e2", {"n": 2})
    key = SessionKey("", "weather", "ann", "s1")
    last = wire_event("e3", {"n": 3, "late": True, "seed": None, "user:tier": "gold"}, "i2")
    await units_of_work.write(lambda: writes.append_event(key, build_record(last)))
    return session


async def post(web: httpx.AsyncClient, session: AgentSession, what: str, **body: Any) -> httpx.Response:
    return await web.post(f"/api/v1/sessions/{session.pk}/{what}", json=body)


async def test_dry_run_reports_and_writes_nothing(web):
    session = await create_two_invocations()
    answer = await post(web, session, "rewind", event_id="e3", dry_run=True)
    assert answer.status_code == 200
    plan = answer.json()
    assert (plan["done"], plan["seq"], plan["first_seq"], plan["events"]) == (False, None, 3, 1)
    assert {key["key"]: (key["now"]["value"], key["then"]) for key in plan["state"]} == {
        "late": (True, {"exists": False, "value": None}),
        "n": (3, {"exists": True, "value": 2}),
        "seed": (None, {"exists": True, "value": 1}),
    }
    assert [key["key"] for key in plan["stays"]["state"]] == ["user:tier"]
    assert await units_of_work.read(Event.objects.count) == 3


async def test_a_rewind_is_done_when_the_session_is_as_planned(web):
    session = await create_two_invocations()
    plan = (await post(web, session, "rewind", before_invocation="i2", dry_run=True)).json()
    done = (await post(web, session, "rewind", before_invocation="i2", revision=plan["revision"])).json()
    assert (done["done"], done["seq"]) == (True, 4)
    state = (await web.get(f"/api/v1/sessions/{session.pk}/state")).json()["merged"]
    assert state == {"seed": 1, "n": 2, "user:tier": "gold"}
    stale = await post(web, session, "rewind", before_invocation="i2", revision=plan["revision"])
    assert (stale.status_code, stale.json()["code"]) == (409, "stale_session")


async def test_a_rewind_is_refused_while_a_run_is_active_and_the_run_is_named(web):
    session = await create_two_invocations()
    run = await units_of_work.write(lifecycle.create_run, session.pk, {})
    answer = await post(web, session, "rewind", before_invocation="i2")
    assert (answer.status_code, answer.json()["code"]) == (409, "session_busy")
    assert run.pk in answer.json()["detail"]
    dry = await post(web, session, "rewind", before_invocation="i2", dry_run=True)
    assert dry.status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"before_invocation": "nobody"}, 404, "invocation_not_found"),
        ({"event_id": "nobody"}, 404, "event_not_found"),
        ({}, 422, "invalid"),
        ({"before_invocation": "i1", "event_id": "e1"}, 422, "invalid"),
    ],
)
async def test_a_rewind_to_nowhere_is_refused(web, body, status, code):
    session = await create_two_invocations()
    answer = await post(web, session, "rewind", **body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_a_session_that_does_not_exist_has_no_branches(web):
    for what, body in (("rewind", {"event_id": "x"}), ("fork", {})):
        answer = await web.post(f"/api/v1/sessions/999/{what}", json=body)
        assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")
    assert (await web.get("/api/v1/sessions/999/lineage")).status_code == 404
    assert (await web.get("/api/v1/sessions/compare?left=999&right=999")).status_code == 404


async def test_unknown_field_is_refused_before_forking(web):
    session = await create_two_invocations()
    answer = await post(web, session, "fork", at="e2")
    assert (answer.status_code, answer.json()["detail"][0]["loc"]) == (422, ["body", "at"])
    assert await units_of_work.read(AgentSession.objects.count) == 1


async def test_fork_links_to_its_original_and_back(web):
    session = await create_two_invocations()
    answer = await post(web, session, "fork", event_id="e2", id="mine", title="Try")
    assert answer.status_code == 201
    new = answer.json()
    assert (new["id"], new["title"], new["events"], new["app"], new["user"]) == (
        "mine",
        "Try",
        2,
        "weather",
        "ann",
    )
    origin = (await web.get(f"/api/v1/sessions/{new['key']}/lineage")).json()["forked_from"]
    assert (origin["key"], origin["session"], origin["seq"], origin["event_id"]) == (
        session.pk,
        "s1",
        2,
        "e2",
    )
    forks = (await web.get(f"/api/v1/sessions/{session.pk}/lineage")).json()
    assert forks["forked_from"] is None
    assert [fork["key"] for fork in forks["forks"]] == [new["key"]]
    assert forks["fork_count"] == 1


async def test_a_fork_in_a_realm_of_its_own_holds_the_shared_state_of_then(web):
    session = await create_two_invocations()
    new = (await post(web, session, "fork", seq=2, own_realm=True)).json()
    assert new["realm"].startswith("fork/")
    assert new["url"] == f"/sessions/id/{new['key']}/"
    state = (await web.get(f"/api/v1/sessions/{new['key']}/state")).json()["merged"]
    assert state == {"seed": 1, "n": 2, "user:tier": "free"}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"event_id": "nobody"}, 404, "event_not_found"),
        ({"seq": 99}, 404, "event_not_found"),
        ({"id": "s1"}, 409, "already_exists"),
        ({"id": "x" * 600}, 400, "bad_input"),
        ({"seq": 1, "event_id": "e2"}, 422, "invalid"),
    ],
)
async def test_a_fork_that_cannot_be_is_refused(web, body, status, code):
    session = await create_two_invocations()
    answer = await post(web, session, "fork", **body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert await units_of_work.read(AgentSession.objects.count) == 1
