"""API for the problems of a session."""

from __future__ import annotations

from sessions_app.problems import session_checks
from sessions_app.search import indexing
from sessions_app.store.database import units_of_work
from sessions_app.store.events import build_record
from sessions_app.store.sessions import writes
from tests.api.builders import append, create, wire_event


def check_sessions() -> None:
    """Check all sessions, as the web process does in the background."""
    indexing.index_all()
    session_checks.check_all()


async def test_problems_come_with_their_evidence_and_a_remedy(web):
    session = await create()
    response = {"id": "c1", "name": "look", "response": {"error": "no such city"}}
    event = {**wire_event("e1"), "content": {"role": "user", "parts": [{"functionResponse": response}]}}
    key = session.key
    await units_of_work.write(lambda: writes.append_event(key, build_record(event)))
    answer = (await web.get(f"/api/v1/sessions/{session.pk}/problems")).json()
    assert (answer["problems"], answer["unchecked"]) == ([], 1)
    await units_of_work.write(check_sessions)
    answer = (await web.get(f"/api/v1/sessions/{session.pk}/problems")).json()
    [problem] = answer["problems"]
    assert (problem["code"], problem["severity"], problem["seq"]) == ("tool-error", "error", 1)
    assert problem["text"] == "look answered with an error in its result: no such city"
    assert problem["evidence"] == [
        {"kind": "event", "target": 1, "label": "result", "session": None, "session_id": ""}
    ]
    assert problem["remedy"]
    assert (answer["more"], answer["unchecked"]) == (0, 0)
    other = (await web.get(f"/api/v1/sessions/{session.pk}/problems?code=timeout")).json()
    assert other["problems"] == []


async def test_hints_come_with_their_evidence_and_a_remedy(web):
    session = await create(initial={"n": 1})
    await append(session, "e1", {"tmp_rows": [1], "user:n": 1})
    await units_of_work.write(check_sessions)
    answer = await web.get(f"/api/v1/sessions/{session.pk}/problems?scope=state")
    assert answer.status_code == 200
    body = answer.json()
    [hint] = body["problems"]
    assert (hint["code"], hint["scope"], hint["severity"]) == ("intermediate", "state", "note")
    assert (hint["key"], hint["text"]) == (
        "tmp_rows",
        "is called “tmp”, but is stored for the whole session.",
    )
    assert "temp:" in hint["remedy"]
    assert hint["evidence"] == [
        {"kind": "event", "target": 1, "label": "written", "session": None, "session_id": ""}
    ]
    assert (body["state_sizes"], body["unchecked_keys"]) == ({"session": 4, "user": 1}, 0)
    everything = (await web.get(f"/api/v1/sessions/{session.pk}/problems")).json()
    assert everything["problems"] == body["problems"]


async def test_former_path_of_hints_redirects(web):
    session = await create()
    answer = await web.get(f"/api/v1/sessions/{session.pk}/state/lint")
    assert (answer.status_code, answer.headers["Location"]) == (302, "../problems?scope=state")


async def test_unknown_scope_is_refused(web):
    session = await create()
    assert (await web.get(f"/api/v1/sessions/{session.pk}/problems?scope=app")).status_code == 422


async def test_deleted_session_is_refused(web):
    answer = await web.get("/api/v1/sessions/99999/problems")
    assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")
