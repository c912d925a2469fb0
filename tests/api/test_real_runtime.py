"""End to end: ADK client, DevUI, supervisor, agent process, and back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from devui.supervisor import Supervisor
from sessions_app.runs import runtime_client as runs
from tests import forked_processes
from tests.api.builders import run_body
from tests.api.conftest import AGENTS
from tests.api.live_sockets import ended_run
from tests.store import store_url

PATIENCE_S = 60
SESSIONS = "/apps/slow/users/ann/sessions"


@pytest_asyncio.fixture
async def supervisor(store: None) -> AsyncIterator[Supervisor]:
    """Supervisor of the agents' processes, registered as `manage.py web` does."""
    with forked_processes.starts():
        async with Supervisor(AGENTS, environment={"DATABASE_URL": store_url()}) as running:
            runs.register(running)
            yield running
            runs.register(None)


async def test_apps_sessions_and_runs_of_a_plain_adk_client(served, supervisor):
    assert (await served.get("/list-apps")).json() == ["broken", "slow"]
    session_id = (await served.post(SESSIONS, json={"state": {"n": 1}})).json()["id"]
    answer = await served.post("/run", json=run_body(session_id, "short"))
    assert answer.status_code == 200, answer.text
    stored = (await served.get(f"{SESSIONS}/{session_id}")).json()
    assert stored["events"][1:] == answer.json()
    run = await ended_run()
    assert (run.status, run.source) == ("done", "adk")
    detailed = (await served.get("/list-apps", params={"detailed": "true"})).json()["apps"]
    assert [(app["name"], app["rootAgentName"], app["language"]) for app in detailed] == [
        ("slow", "slow", "python")
    ]
    assert detailed[0]["description"] == "Counts slowly."


@pytest.mark.parametrize("path", ["/run", "/run_sse"])
async def test_agent_import_error_is_returned(served, supervisor, path):
    session = (await served.post("/apps/broken/users/ann/sessions", json={})).json()
    answer = await served.post(path, json=run_body(session["id"], "hello") | {"appName": "broken"})
    told = answer.json()
    assert (answer.status_code, told["code"]) == (500, "agent_not_loaded")
    assert told["detail"].startswith("Agent 'broken' could not be loaded: ")
    assert "The agent's page shows where it failed." in told["hint"]


async def test_process_death_shows_in_stream_and_run(served, supervisor):
    session_id = (await served.post(SESSIONS, json={})).json()["id"]
    async with served.stream("POST", "/run_sse", json=run_body(session_id, "die")) as response:
        lines = [line async for line in response.aiter_lines() if line]
    told = json.loads(lines[-1].removeprefix("data: "))
    assert told["code"] == "runtime_unavailable"
    assert "slow" in told["error"]
    run = await ended_run()
    assert run.status == "crashed"
    again = await served.post("/run", json=run_body(session_id, "short"))
    assert again.status_code == 200, again.text


async def test_the_stop_button_of_adks_front_end_cancels_the_run(served, supervisor):
    session_id = (await served.post(SESSIONS, json={})).json()["id"]
    async with served.stream("POST", "/run_sse", json=run_body(session_id, "count")) as response:
        await anext(response.aiter_raw())
    run = await ended_run()
    assert run.status == "cancelled"


async def test_a_session_is_busy_while_its_agent_works(served, supervisor):
    session_id = (await served.post(SESSIONS, json={})).json()["id"]
    async with served.stream("POST", "/run_sse", json=run_body(session_id, "count")) as response:
        reading = response.aiter_raw()
        await anext(reading)
        refused = await served.patch(f"{SESSIONS}/{session_id}", json={"stateDelta": {"n": 1}})
        assert refused.status_code == 409
        run = (await served.get("/api/v1/runs")).json()["runs"][0]
        assert run["id"] in refused.json()["detail"]
        cancelled = await served.post(f"/api/v1/runs/{run['id']}/cancel")
        assert cancelled.json()["status"] == "cancelled"
    changed = await served.patch(f"{SESSIONS}/{session_id}", json={"stateDelta": {"n": 1}})
    assert changed.status_code == 200


async def test_broken_agent_is_reported_and_left_out_of_details(served, supervisor):
    session_id = (await served.post("/apps/broken/users/ann/sessions", json={})).json()["id"]
    body = {**run_body(session_id, "hello"), "appName": "broken"}
    answer = await served.post("/run", json=body)
    assert answer.status_code >= 500
    assert answer.json()["hint"]
