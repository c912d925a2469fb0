"""API for lint hints."""

from __future__ import annotations

from tests.api.builders import append, create


async def test_hints_come_with_their_evidence_and_a_remedy(web):
    session = await create(initial={"n": 1})
    await append(session, "e1", {"tmp_rows": [1], "user:n": 1})
    answer = await web.get(f"/api/v1/sessions/{session.pk}/state/lint")
    assert answer.status_code == 200
    body = answer.json()
    [hint] = body["hints"]
    assert (hint["rule"], hint["key"]) == ("intermediate", "tmp_rows")
    assert "temp:" in hint["remedy"]
    assert hint["evidence"] == [
        {"text": "written", "session": session.pk, "session_id": session.session_id, "seq": 1}
    ]
    assert (body["sizes"], body["unread"]) == ({"session": 4, "user": 1}, 0)


async def test_deleted_session_is_refused(web):
    answer = await web.get("/api/v1/sessions/99999/state/lint")
    assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")
