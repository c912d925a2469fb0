"""API for judgements of people on events."""

from __future__ import annotations

import pytest

from tests.api.builders import append, create

API = "/api/v1"


async def test_event_is_judged_listed_and_withdrawn(web):
    session = await create("s1")
    await append(session, "e1")
    path = f"{API}/sessions/{session.pk}"
    answer = (
        await web.put(f"{path}/events/1/judgement", json={"verdict": "bad", "note": "It rains."})
    ).json()
    assert (answer["seq"], answer["verdict"], answer["note"], answer["person"]) == (1, "bad", "It rains.", "")
    assert (await web.get(f"{path}/judgements")).json() == {"items": [answer], "next": ""}
    again = (await web.put(f"{path}/events/1/judgement", json={"verdict": "good"})).json()
    assert (again["verdict"], again["note"]) == ("good", "")
    assert (await web.delete(f"{path}/events/1/judgement")).status_code == 204
    assert (await web.get(f"{path}/judgements")).json()["items"] == []
    assert (await web.delete(f"{path}/events/1/judgement")).status_code == 404


async def test_adk_clients_see_no_judgement(web):
    session = await create("s1")
    await append(session, "e1")
    before = (await web.get("/apps/weather/users/ann/sessions/s1")).json()
    await web.put(f"{API}/sessions/{session.pk}/events/1/judgement", json={"verdict": "bad"})
    assert (await web.get("/apps/weather/users/ann/sessions/s1")).json() == before


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"verdict": "odd"}, 400),
        ({"verdict": "bad", "note": "x" * 2_001}, 400),
        ({"note": "no verdict"}, 422),
        ({"verdict": "bad", "person": "bob"}, 422),
    ],
)
async def test_invalid_judgement_is_refused(web, body, status):
    session = await create("s1")
    await append(session, "e1")
    path = f"{API}/sessions/{session.pk}"
    assert (await web.put(f"{path}/events/1/judgement", json=body)).status_code == status
    assert (await web.get(f"{path}/judgements")).json()["items"] == []


async def test_missing_sessions_and_events_cannot_be_judged(web):
    session = await create("s1")
    answer = await web.put(f"{API}/sessions/{session.pk}/events/7/judgement", json={"verdict": "bad"})
    assert (answer.status_code, answer.json()["code"]) == (404, "event_not_found")
    answer = await web.put(f"{API}/sessions/999/events/1/judgement", json={"verdict": "bad"})
    assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")
    assert (await web.get(f"{API}/sessions/999/judgements")).status_code == 404
