"""Kills of web processes and workers: no run is lost, and none ends twice."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from sessions_app.agent_processes import processes
from tests.patience import PATIENCE_S
from tests.workers.conftest import CASES, WORDS
from tests.workers.team import Member, Team, Web, wait_for

pytestmark = pytest.mark.soak

SILENCE_S = processes.SILENCE_S
OUTCOMES = """
SELECT case_id, repetition, status FROM evals_app_evalattempt WHERE run_id = '{}' ORDER BY case_index, repetition
"""


def start(team: Team, workers: int) -> list[Member]:
    """Start workers and wait until they take jobs."""
    started = [team.start_worker() for _ in range(workers)]
    team.await_workers(workers)
    return started


def worker_of(team: Team, table: str, run_id: str, workers: list[Member]) -> Member:
    """Return the worker that coordinates an eval run, or whose process executes a run."""
    statement = (
        f"SELECT server.pid FROM {table} run JOIN sessions_app_runtimeprocess process ON process.id = run.runtime_id"
        " JOIN sessions_app_runtimeprocess server ON server.id = COALESCE(process.server_id, process.id)"
        f" WHERE run.id = '{run_id}' AND run.status = 'running'"
    )
    ((pid,),) = wait_for(lambda: team.rows(statement), lambda rows: len(rows) == 1)
    return next(worker for worker in workers if worker.process.pid == pid)


def await_status(web: Web, run_id: str, status: str = "running") -> None:
    wait_for(lambda: web.status(run_id), lambda current: current == status)


def await_begin(web: Web, run_id: str) -> None:
    wait_for(lambda: web.status(run_id), lambda current: current != "queued")


def test_killed_web_process_ends_no_run(team):
    one, other = team.start_web(), team.start_web()
    start(team, 1)
    run_id = one.run(one.session(), f"say {WORDS * 3}")
    await_status(one, run_id)
    one.end(signal.SIGKILL)
    assert other.end_of(run_id)["status"] == "done"


def test_killed_web_process_ends_the_streams_of_its_clients_as_they_do(team):
    """As in ADK: who asked is gone. The session is free for who asks again."""
    one, other = team.start_web(), team.start_web()
    start(team, 1)
    session = one.session()
    (listed,) = one.get("/api/v1/sessions?app=talker")["sessions"]
    request = {"appName": "talker", "userId": "ann", "sessionId": listed["id"], "streaming": True}
    message = {"role": "user", "parts": [{"text": f"say {WORDS * 30}"}]}
    with one.client.stream("POST", f"{one.url}/run_sse", json={**request, "newMessage": message}) as answer:
        assert "w0" in next(answer.iter_lines())
        (run,) = other.get(f"/api/v1/runs?session={session}")["runs"]
        one.end(signal.SIGKILL)
        assert other.end_of(run["id"])["status"] == "cancelled"
    assert other.end_of(other.run(session, "say again"))["status"] == "done"


def test_run_queued_by_a_web_process_that_was_killed_is_executed(team):
    one, other = team.start_web(), team.start_web()
    (worker,) = start(team, 1)
    session = one.session()
    worker.process.send_signal(signal.SIGSTOP)
    run_id = one.run(session, "say hello")
    one.end(signal.SIGKILL)
    assert other.status(run_id) == "queued"
    worker.process.send_signal(signal.SIGCONT)
    assert other.end_of(run_id)["status"] == "done"


def test_runs_of_a_killed_worker_crash_and_queued_ones_go_to_another(team):
    web = team.start_web()
    workers = start(team, 1)
    session = web.session()
    running = web.run(session, f"say {WORDS * 30}")
    await_status(web, running)
    queued = web.run(session, "say next")
    workers[0].end(signal.SIGKILL)
    start(team, 1)
    assert web.end_of(running)["status"] in {"cancelled", "crashed"}  # cancelled: its process noticed
    assert web.end_of(queued)["status"] == "done"


def test_eval_run_of_a_killed_worker_goes_on_at_another(team):
    web = team.start_web()
    workers = start(team, 2)
    run_id = web.eval_run(parallelism=4)
    killed = worker_of(team, "evals_app_evalrun", run_id, workers)
    ended = "SELECT count(*) FROM evals_app_evalattempt WHERE finished_at IS NOT NULL"
    wait_for(lambda: team.rows(ended)[0][0], lambda count: count >= 6)
    killed.end(signal.SIGKILL)
    facts = web.end_of_evals(run_id)
    assert facts["status"] == "done"
    outcomes = team.rows(OUTCOMES.format(run_id))
    assert len({(case, repetition) for case, repetition, _ in outcomes}) == CASES == len(outcomes)
    assert {status for _, _, status in outcomes} == {"passed"}


def test_stopped_worker_finishes_its_run_and_takes_no_more(team):
    web = team.start_web()
    first, _ = start(team, 2)
    ids = [web.run(web.session(), f"say {WORDS * 6}") for _ in range(4)]
    for run_id in ids:  # on a slow machine the first may have ended when the last begins
        await_begin(web, run_id)
    first.process.send_signal(signal.SIGTERM)
    late = web.run(web.session(), "say late")
    assert {web.end_of(run_id)["status"] for run_id in [*ids, late]} == {"done"}
    assert first.process.wait(PATIENCE_S) == 0


def test_two_versions_of_code_take_only_their_own_eval_runs(team, tmp_path):
    web = team.start_web()
    start(team, 1)
    run_id = web.eval_run(num_runs=3)
    wait_for(lambda: web.eval_facts(run_id), lambda run: run["status"] == "running" and run["code_version"])
    web.post(f"/api/v1/evals/runs/{run_id}/cancel")
    web.end_of_evals(run_id)
    code = web.eval_facts(run_id)["code_version"]

    other_agents = tmp_path / "other"
    shutil.copytree(team.agents, other_agents)
    (other_agents / "talker/agent.py").open("a").write("# another version\n")
    team.start_worker(agents=other_agents)
    team.await_workers(2)
    web.post(f"/api/v1/evals/runs/{run_id}/resume")
    facts = web.end_of_evals(run_id)
    assert (facts["status"], facts["code_version"]) == ("done", code)


HOSTS = ["", "elsewhere"] if os.geteuid() == 0 else [""]  # naming a host needs root


def test_paused_workers_that_wake_late_change_nothing(team):
    """Their attempts have ended at others: what they finish late is not stored."""
    web = team.start_web()
    paused = [team.start_worker(host=host) for host in HOSTS]
    team.await_workers(len(paused))
    run_id = web.eval_run(parallelism=4)
    ended = (
        "SELECT count(*), count(DISTINCT runtime_id) FROM evals_app_evalattempt WHERE finished_at IS NOT NULL"
    )
    wait_for(lambda: team.rows(ended)[0], lambda counts: counts[0] >= 6 and counts[1] == len(paused))
    hosts = {host for (host,) in team.rows("SELECT host FROM sessions_app_runtimeprocess WHERE pid > 0")}
    assert len(hosts) == len(HOSTS)
    assert hosts >= set(HOSTS) - {""}
    pids = [pid for (pid,) in team.rows("SELECT pid FROM sessions_app_runtimeprocess WHERE pid > 0")]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    start(team, 2)
    facts = web.end_of_evals(run_id, patience_s=SILENCE_S + PATIENCE_S)
    assert facts["status"] == "done"
    before = team.rows("SELECT id, status, finished_at, session_id FROM evals_app_evalattempt ORDER BY id")
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    living = (
        "SELECT count(*) FROM devui_workers_worker w JOIN sessions_app_runtimeprocess p ON p.id = w.process_id"
        " WHERE p.stopped_at IS NULL"
    )
    wait_for(lambda: team.rows(living)[0][0], lambda count: count == len(paused) + 2)
    assert [worker.process.poll() for worker in paused] == [None] * len(paused)
    after = team.rows("SELECT id, status, finished_at, session_id FROM evals_app_evalattempt ORDER BY id")
    assert after == before
