"""API for the problems of a session."""

from __future__ import annotations

from sessions_app.problems import session_checks
from sessions_app.search import indexing
from sessions_app.store.database import units_of_work
from sessions_app.store.events import build_record
from sessions_app.store.sessions import writes
from tests.api.builders import create, wire_event


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
    assert problem["evidence"] == [{"kind": "event", "target": 1, "label": "result"}]
    assert problem["remedy"]
    assert (answer["more"], answer["unchecked"]) == (0, 0)
    other = (await web.get(f"/api/v1/sessions/{session.pk}/problems?code=timeout")).json()
    assert other["problems"] == []


async def test_deleted_session_is_refused(web):
    answer = await web.get("/api/v1/sessions/99999/problems")
    assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")
