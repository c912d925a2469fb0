"""API for an app's time to live and for the active session."""

from __future__ import annotations

import asyncio

import pytest

from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession

SETTINGS = "/api/v1/apps/weather/settings"
ACTIVE = "/api/v1/sessions/active"
WHO = {"app": "weather", "user": "ann"}


@pytest.mark.parametrize(("value", "seconds", "span"), [("30d", 2_592_000, "30d"), (5_400, 5_400, "90m")])
async def test_an_apps_time_to_live_is_set_as_seconds_or_as_a_span(web, value, seconds, span):
    answer = await web.put(SETTINGS, json={"session_ttl": value})
    settings = {"app": "weather", "session_ttl_s": seconds, "session_ttl": span}
    assert (answer.status_code, answer.json()) == (200, settings)
    assert (await web.get(SETTINGS)).json() == settings
    cleared = (await web.put(SETTINGS, json={"session_ttl": None})).json()
    assert cleared == {"app": "weather", "session_ttl_s": None, "session_ttl": None}


@pytest.mark.parametrize("value", ["soon", 0, -1, "", 1e30])
async def test_a_span_that_is_none_is_refused(web, value):
    answer = await web.put(SETTINGS, json={"session_ttl": value})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
    assert (await web.get(SETTINGS)).json()["session_ttl"] is None


async def test_settings_without_a_span_and_of_an_unknown_app_are_refused(web):
    assert (await web.put(SETTINGS, json={})).status_code == 422
    assert (await web.put(SETTINGS, json={"session_ttl": True})).status_code == 422
    assert (await web.get("/api/v1/apps/nobody/settings")).status_code == 404
    assert (await web.put("/api/v1/apps/nobody/settings", json={"session_ttl": "1d"})).status_code == 404


async def test_active_session_is_created_once_and_reused(web):
    first = await web.post(ACTIVE, json={**WHO, "ttl": "1h", "state": {"n": 1}})
    again = await web.post(ACTIVE, json={**WHO, "ttl": 3600})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["created"] is True
    assert again.json() == {**first.json(), "created": False}
    assert first.json()["session"]["survives_restart"] is True


async def test_expired_session_is_not_reused(web):
    first = (await web.post(ACTIVE, json=WHO)).json()["session"]
    await units_of_work.write(lambda: AgentSession.objects.update(updated_at=1.0))
    second = (await web.post(ACTIVE, json={**WHO, "ttl": "1d"})).json()["session"]
    assert first["id"] != second["id"]


async def test_clients_that_ask_at_once_get_the_same_session(web):
    answers = await asyncio.gather(*(web.post(ACTIVE, json=WHO) for _ in range(10)))
    assert len({answer.json()["session"]["key"] for answer in answers}) == 1
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"app": "weather"}, 422),
        ({**WHO, "tll": "1h"}, 422),
        ({**WHO, "ttl": "soon"}, 400),
        ({**WHO, "user": "x" * 600}, 400),
    ],
)
async def test_invalid_body_is_refused_without_creating_session(web, body, status):
    assert (await web.post(ACTIVE, json=body)).status_code == status
    assert await units_of_work.read(AgentSession.objects.count) == 0
