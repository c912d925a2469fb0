"""Live conversations and answers to calls that wait, between any web process and a worker with another address."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect

from tests.api.live_sockets import LIVE_AGENTS, closing_of, next_agent_text, text_message
from tests.patience import PATIENCE_S
from tests.ports import find_free_port
from tests.workers.conftest import agents_of_team
from tests.workers.team import Team, own_database, wait_for

pytestmark = pytest.mark.soak

CAREFUL = """
from acting import Acting
from google.adk.agents import LlmAgent
from google.adk.tools.function_tool import FunctionTool


def delete_file(name: str) -> str:
    \"\"\"Delete a file.\"\"\"
    return f"{name} is gone"


root_agent = LlmAgent(
    name="careful", model=Acting(), tools=[FunctionTool(delete_file, require_confirmation=True)]
)
"""


@pytest.fixture(scope="module")
def talking_team(tmp_path_factory):
    """Two web processes, and a worker that listens on all addresses and advertises one."""
    folder = tmp_path_factory.mktemp("talks")
    agents = agents_of_team(folder)
    shutil.copytree(LIVE_AGENTS, agents, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    (agents / "careful").mkdir()
    Path(agents / "careful" / "agent.py").write_text(CAREFUL)
    port = find_free_port()
    with own_database() as database:
        team = Team(folder, database, agents)
        try:
            webs = team.start_web(), team.start_web()
            worker = team.start_worker("--listen", f"0.0.0.0:{port}", "--advertise", f"localhost:{port}")
            team.await_workers(1)
            yield team, *webs, worker
        finally:
            team.end()


def live_socket(web, session_id):
    query = f"app_name=parrot&user_id=ann&session_id={session_id}&modalities=TEXT"
    address = web.url.removeprefix("http://")
    return connect(f"ws://{address}/run_live?{query}", proxy=None, open_timeout=PATIENCE_S)


def new_live_session(web):
    return web.post("/apps/parrot/users/ann/sessions")["id"]


def live_runs(team, session_id):
    statement = (
        "SELECT run.status FROM sessions_app_run run JOIN sessions_app_agentsession session"
        f" ON session.id = run.session_id WHERE session.session_id = '{session_id}'"
    )
    return [status for (status,) in team.rows(statement)]


def open_call(web, session):
    """Return id and name of the call that waits for an answer."""
    events = web.get(f"/api/v1/sessions/{session}/events")["events"]
    calls = [
        part["functionCall"]
        for event in events
        for part in (event["event"].get("content") or {}).get("parts", [])
        if "functionCall" in part
    ]
    return calls[-1]["id"], calls[-1]["name"]


def waiting_run(web, app, text):
    """Run an agent until its call waits for an answer; return the session."""
    session = web.session(app)
    assert web.end_of(web.run(session, text))["status"] == "waiting"
    return session


def answer_call(web, session):
    """Answer the waiting call; return the id of the run."""
    call_id, name = open_call(web, session)
    answer = {"functionResponse": {"id": call_id, "name": name, "response": {"status": "granted"}}}
    body = {"session": session, "message": {"role": "user", "parts": [answer]}}
    return web.post("/api/v1/runs", body)["id"]


def texts_of(web, session):
    return json.dumps(web.get(f"/api/v1/sessions/{session}/events"))


def test_worker_advertises_the_given_address(talking_team):
    team, _one, _other, _worker = talking_team
    ((address,),) = team.rows("SELECT address FROM devui_workers_worker")
    assert address.startswith("localhost:")


async def test_live_conversation_goes_both_ways_and_is_stored(talking_team):
    team, one, other, _worker = talking_team
    session_id = await asyncio.to_thread(new_live_session, one)
    async with live_socket(other, session_id) as line:
        await line.send(text_message("hello"))
        assert await next_agent_text(line) == "heard hello"
        await line.send(text_message("again"))
        assert await next_agent_text(line) == "heard again"
        assert await asyncio.to_thread(live_runs, team, session_id) == ["running"]
    ended = await asyncio.to_thread(
        wait_for, lambda: live_runs(team, session_id), lambda statuses: statuses != ["running"]
    )
    assert ended == ["cancelled"]
    stored = await asyncio.to_thread(one.get, f"/apps/parrot/users/ann/sessions/{session_id}")
    assert "heard again" in json.dumps(stored)


async def test_death_of_the_agents_process_closes_the_socket_with_its_reason(talking_team):
    team, one, other, _worker = talking_team
    session_id = await asyncio.to_thread(new_live_session, other)
    async with live_socket(one, session_id) as line:
        await line.send(text_message("die"))
        code, reason = await closing_of(line)
    assert code == 1011
    assert "parrot" in reason
    assert await asyncio.to_thread(
        wait_for, lambda: live_runs(team, session_id), lambda statuses: statuses == ["crashed"]
    )


async def test_error_of_a_live_agent_closes_the_socket_with_its_text(talking_team):
    _team, one, _other, _worker = talking_team
    async with live_socket(one, await asyncio.to_thread(new_live_session, one)) as line:
        await line.send(text_message("fail"))
        assert await closing_of(line) == (1011, "kaput")


def test_long_running_call_is_answered_at_another_web_process(talking_team):
    _team, one, other, _worker = talking_team
    session = waiting_run(one, "patient", 'call ask_boss {"what": "leave"}')
    assert other.end_of(answer_call(other, session))["status"] == "done"
    assert "granted" in texts_of(one, session)


@pytest.mark.parametrize(("pressed", "result"), [("yes", "notes.txt is gone"), ("no", "rejected")])
def test_confirmation_is_given_on_the_page_of_another_web_process(talking_team, pressed, result):
    _team, one, other, _worker = talking_team
    session = waiting_run(one, "careful", 'call delete_file {"name": "notes.txt"}')
    call_id, name = open_call(other, session)
    assert name == "adk_request_confirmation"
    answered = httpx.post(
        f"{other.url}/runs/start/{session}/",
        data={"call_id": call_id, "confirmed": pressed},
        headers={"Origin": other.url},
        timeout=PATIENCE_S,
        trust_env=False,
    )
    assert answered.status_code == 303, answered.text
    wait_for(
        lambda: [run["status"] for run in one.get(f"/api/v1/runs?session={session}")["runs"]],
        lambda statuses: statuses == ["done", "done"],
    )
    assert result in texts_of(one, session)


def test_waiting_call_is_answered_after_its_worker_was_replaced(talking_team):
    team, one, other, worker = talking_team
    session = waiting_run(one, "patient", 'call ask_boss {"what": "leave"}')
    team.start_worker()
    team.await_workers(2)
    worker.end()
    assert other.end_of(answer_call(other, session))["status"] == "done"
    assert "granted" in texts_of(one, session)
