"""Web processes without agents, and a worker that runs them."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import pairwise

import httpx
import pytest

from tests.patience import PATIENCE_S
from tests.workers.conftest import WORDS
from tests.workers.team import streamed, wait_for

pytestmark = pytest.mark.soak


def test_every_web_process_lists_the_agents_of_workers(shared_team):
    _team, one, other = shared_team
    assert one.get("/list-apps") == other.get("/list-apps")
    assert "talker" in one.get("/list-apps")


async def test_run_of_one_web_process_streams_at_the_other(shared_team):
    _team, one, other = shared_team
    session = await asyncio.to_thread(one.session)
    async with other.page(session) as messages:
        run_id = await asyncio.to_thread(one.run, session, f"say {WORDS}")
        assert "w0" in await streamed(messages, "w0")
    assert (await asyncio.to_thread(one.end_of, run_id))["status"] == "done"
    events = await asyncio.to_thread(other.get, f"/api/v1/sessions/{session}/events")
    assert WORDS in json.dumps(events)


def test_run_is_cancelled_at_another_web_process(shared_team):
    _team, one, other = shared_team
    run_id = one.run(one.session(), f"say {WORDS * 20}")
    wait_for(lambda: one.status(run_id), lambda status: status == "running")
    assert other.post(f"/api/v1/runs/{run_id}/cancel")["status"] == "cancelled"


def test_blocking_agent_is_cancelled_by_the_end_of_its_process(shared_team):
    _team, one, other = shared_team
    run_id = one.run(one.session("napper"), 'call nap {"seconds": 60}')
    wait_for(lambda: one.status(run_id), lambda status: status == "running")
    assert other.post(f"/api/v1/runs/{run_id}/cancel")["status"] == "cancelled"


def test_runs_of_a_session_execute_in_order(shared_team):
    _team, one, other = shared_team
    session = one.session()
    ids = [web.run(session, f"say {number}") for number, web in enumerate([one, other] * 3)]
    runs = [one.end_of(run_id) for run_id in ids]
    assert [run["status"] for run in runs] == ["done"] * 6
    times = [(run["started_at"], run["finished_at"]) for run in runs]
    assert all(before[1] <= after[0] for before, after in pairwise(times))


def test_adk_paths_stream_tokens_as_they_are_said(shared_team):
    """The talker says 20 words in a second. Frames that were held back would arrive together."""
    _team, one, other = shared_team
    response = one.post("/apps/talker/users/ann/sessions")
    body = {
        "appName": "talker",
        "userId": "ann",
        "sessionId": response["id"],
        "streaming": True,
        "newMessage": {"role": "user", "parts": [{"text": f"say {WORDS}"}]},
    }
    arrivals = []
    with httpx.stream(
        "POST", f"{other.url}/run_sse", json=body, timeout=PATIENCE_S, trust_env=False
    ) as answer:
        for line in answer.iter_lines():
            if '"partial":true' in line:
                arrivals.append(time.monotonic())
    assert len(arrivals) == 20
    assert arrivals[-1] - arrivals[0] > 0.5


def test_tool_is_called_by_hand_in_the_process_of_the_worker(shared_team):
    _team, one, _other = shared_team
    body = {"args": {"city": "Paris", "nights": 2}}
    outcome = one.post("/api/v1/apps/handy/tools/book/call", body)
    assert outcome["state_delta"] == {"city": "Paris", "user:nights": 2}


def test_eval_run_executes_on_the_worker(shared_team):
    _team, one, other = shared_team
    run_id = one.eval_run(cases=["c1", "c2"])
    facts = other.end_of_evals(run_id)
    assert (facts["status"], facts["counts"]["passed"]) == ("done", 2)


def test_eval_run_is_cancelled_at_another_web_process(shared_team):
    _team, one, other = shared_team
    run_id = one.eval_run(num_runs=5)
    wait_for(lambda: one.eval_facts(run_id), lambda run: run["status"] == "running")
    other.post(f"/api/v1/evals/runs/{run_id}/cancel")
    assert other.end_of_evals(run_id)["status"] == "cancelled"


def test_jobs_of_ended_runs_are_gone(shared_team):
    team, one, _other = shared_team
    one.end_of(one.run(one.session(), "say hello"))
    wait_for(lambda: team.rows("SELECT status FROM procrastinate_jobs"), lambda jobs: jobs == [])


def test_listener_refuses_requests_without_the_token(shared_team):
    team, _one, _other = shared_team
    ((address,),) = team.rows("SELECT address FROM devui_workers_worker")
    answer = httpx.get(f"http://{address}/apps/talker/list-apps", trust_env=False)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


def test_app_of_no_worker_is_refused_with_the_way_out(shared_team):
    _team, one, _other = shared_team
    answer = httpx.post(
        f"{one.url}/run",
        json={"appName": "nobody", "userId": "ann", "sessionId": "s", "newMessage": {"parts": []}},
        trust_env=False,
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 503
    assert answer.json()["detail"] == "No worker has agent 'nobody'."
    assert "manage.py worker" in answer.json()["hint"]
