"""End to end: ADK client, DevUI, supervisor, agent process, and back."""

from __future__ import annotations

import json

import pytest

from tests.api.builders import run_body
from tests.api.conftest import AGENTS
from tests.api.live_sockets import ended_run

pytestmark = pytest.mark.asyncio(loop_scope="module")

SUPERVISED = AGENTS
SESSIONS = "/apps/slow/users/ann/sessions"


async def test_apps_sessions_and_runs_of_a_plain_adk_client(shared_client, supervisor):
    assert (await shared_client.get("/list-apps")).json() == ["broken", "slow"]
    session_id = (await shared_client.post(SESSIONS, json={"state": {"n": 1}})).json()["id"]
    answer = await shared_client.post("/run", json=run_body(session_id, "short"))
    assert answer.status_code == 200, answer.text
    stored = (await shared_client.get(f"{SESSIONS}/{session_id}")).json()
    assert stored["events"][1:] == answer.json()
    run = await ended_run()
    assert (run.status, run.source) == ("done", "adk")
    detailed = (await shared_client.get("/list-apps", params={"detailed": "true"})).json()["apps"]
    assert [(app["name"], app["rootAgentName"], app["language"]) for app in detailed] == [
        ("slow", "slow", "python")
    ]
    assert detailed[0]["description"] == "Counts slowly."


@pytest.mark.parametrize("path", ["/run", "/run_sse"])
async def test_agent_import_error_is_returned(shared_client, supervisor, path):
    session = (await shared_client.post("/apps/broken/users/ann/sessions", json={})).json()
    answer = await shared_client.post(path, json=run_body(session["id"], "hello") | {"appName": "broken"})
    body = answer.json()
    assert (answer.status_code, body["code"]) == (500, "agent_not_loaded")
    assert body["detail"].startswith("Agent 'broken' could not be loaded: ")
    assert "The agent's page shows where it failed." in body["hint"]


async def test_process_death_shows_in_stream_and_run(shared_client, supervisor):
    session_id = (await shared_client.post(SESSIONS, json={})).json()["id"]
    async with shared_client.stream("POST", "/run_sse", json=run_body(session_id, "die")) as response:
        lines = [line async for line in response.aiter_lines() if line]
    body = json.loads(lines[-1].removeprefix("data: "))
    assert body["code"] == "runtime_unavailable"
    assert "slow" in body["error"]
    run = await ended_run()
    assert run.status == "crashed"
    again = await shared_client.post("/run", json=run_body(session_id, "short"))
    assert again.status_code == 200, again.text


async def test_the_stop_button_of_adks_front_end_cancels_the_run(shared_client, supervisor):
    session_id = (await shared_client.post(SESSIONS, json={})).json()["id"]
    async with shared_client.stream("POST", "/run_sse", json=run_body(session_id, "count")) as response:
        await anext(response.aiter_raw())
    run = await ended_run()
    assert run.status == "cancelled"


async def test_a_session_is_busy_while_its_agent_works(shared_client, supervisor):
    session_id = (await shared_client.post(SESSIONS, json={})).json()["id"]
    async with shared_client.stream("POST", "/run_sse", json=run_body(session_id, "count")) as response:
        reading = response.aiter_raw()
        await anext(reading)
        refused = await shared_client.patch(f"{SESSIONS}/{session_id}", json={"stateDelta": {"n": 1}})
        assert refused.status_code == 409
        run = (await shared_client.get("/api/v1/runs")).json()["runs"][0]
        assert run["id"] in refused.json()["detail"]
        cancelled = await shared_client.post(f"/api/v1/runs/{run['id']}/cancel")
        assert cancelled.json()["status"] == "cancelled"
    changed = await shared_client.patch(f"{SESSIONS}/{session_id}", json={"stateDelta": {"n": 1}})
    assert changed.status_code == 200


async def test_broken_agent_is_reported_and_left_out_of_details(shared_client, supervisor):
    session_id = (await shared_client.post("/apps/broken/users/ann/sessions", json={})).json()["id"]
    body = {**run_body(session_id, "hello"), "appName": "broken"}
    answer = await shared_client.post("/run", json=body)
    assert answer.status_code >= 500
    assert answer.json()["hint"]
