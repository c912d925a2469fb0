"""The attempts of one eval run execute on all workers, through kills, pauses and restarts."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sessions_app.agent_processes import processes
from tests.evals.builders import case, evalset, turn, write
from tests.patience import PATIENCE_S
from tests.postgres import Cluster
from tests.workers.conftest import agents_of_team
from tests.workers.team import Member, Team, Web, wait_for

pytestmark = pytest.mark.soak

ROUNDS = int(os.environ.get("DEVUI_TEST_ROUNDS", "1"))
"""Rounds of the test with kills, each with other ones."""

CASES = 200
REPETITIONS = 4 if "DEVUI_TEST_ROUNDS" in os.environ else 1
"""Of the run with kills: 1,000 attempts with those of the other run if rounds are asked for, else 400."""

PARALLELISM = 24
PAUSE_S = processes.SILENCE_S + 10
"""Seconds for which a worker is paused: others take its attempts over."""

OUTCOMES = """
SELECT attempt.id, attempt.status, attempt.finished_at, attempt.session_id, attempt.tries,
       (SELECT count(*) FROM evals_app_metricresult WHERE attempt_id = attempt.id)
FROM evals_app_evalattempt attempt ORDER BY attempt.id
"""
OTHER_CODE = """
SELECT count(*) FROM evals_app_evalattempt attempt JOIN evals_app_evalrun run ON run.id = attempt.run_id
LEFT JOIN sessions_app_runtimeprocess process ON process.id = attempt.runtime_id
WHERE process.code_version IS DISTINCT FROM run.code_version
"""
WORKERS_OF = """
SELECT DISTINCT process.server_id FROM evals_app_evalattempt attempt
JOIN sessions_app_runtimeprocess process ON process.id = attempt.runtime_id WHERE attempt.run_id = '{}'
"""
ACTIVE_RUNS = "SELECT count(*) FROM evals_app_evalrun WHERE status IN ('pending', 'running')"
RUNNING = "SELECT count(*) FROM evals_app_evalattempt WHERE run_id = '{}' AND status = 'running'"
STATUSES = "SELECT status, count(*) FROM evals_app_evalattempt WHERE run_id = '{}' GROUP BY status"
ENDED = "SELECT count(*) FROM evals_app_evalattempt WHERE run_id = '{}' AND finished_at IS NOT NULL"


def rows(team: Team, statement: str) -> list[tuple[Any, ...]]:
    """Return rows of the database, which may be restarting."""
    while True:
        try:
            return team.rows(statement)
        except psycopg.OperationalError:
            time.sleep(0.2)


def number(team: Team, statement: str) -> int:
    return int(rows(team, statement)[0][0])


def add_evalset(agents: Path) -> None:
    """Write the evalset `many` of short cases."""
    cases = [case(f"c{n}", turn(f"say {n}", str(n))) for n in range(CASES)]
    write(agents / "talker", "many.evalset.json", evalset(*cases))


class Chaos:
    """A team on a PostgreSQL server of its own, whose members are killed at random."""

    def __init__(self, folder: Path, cluster: Cluster, seed: int) -> None:
        self._dice = random.Random(seed)
        self._cluster = cluster
        agents = agents_of_team(folder)
        add_evalset(agents)
        self.other_agents = folder / "other"
        shutil.copytree(agents, self.other_agents)
        (self.other_agents / "talker/agent.py").open("a").write("# another version\n")
        self.team = Team(folder, cluster.url, agents)
        self.webs: list[Web] = []
        self.workers: list[Member] = []

    def start(self) -> Member:
        """Start two web processes, two workers, one with other code, and one on another host. Return the last one."""
        self.webs = [self.team.start_web(), self.team.start_web()]
        self.workers = [self.team.start_worker(), self.team.start_worker()]
        self.team.start_worker(agents=self.other_agents)
        elsewhere = self.team.start_worker(host="elsewhere")
        self.team.await_workers(4)
        return elsewhere

    def strike(self) -> str:
        """Kill and replace a member, or the database; return which."""
        victim = self._dice.choice(["worker", "worker", "web process", "database"])
        if victim == "worker":
            self.workers.pop(0).end(signal.SIGKILL)
            self.workers.append(self.team.start_worker())
        elif victim == "web process":
            self.webs.pop(0).end(signal.SIGKILL)
            self.webs.append(self.team.start_web())
        else:
            self._cluster.restart(self._dice.choice(["fast", "immediate"]))
        return victim

    def restore(self) -> None:
        """Start the members again that found no database when they started."""
        self.webs = [web if web.process.poll() is None else self.team.start_web() for web in self.webs]
        self.workers = [
            worker if worker.process.poll() is None else self.team.start_worker() for worker in self.workers
        ]

    def wait(self) -> None:
        """Let the team work for some seconds."""
        time.sleep(self._dice.uniform(4, 8))


@pytest.fixture
def chaos(tmp_path: Path, cluster: Cluster) -> Iterator[Chaos]:
    seed = random.randrange(10**6)
    print(f"== seed {seed}")
    chaos = Chaos(tmp_path, cluster, seed)
    try:
        yield chaos
    finally:
        chaos.team.end()


def pause(team: Team, worker: Member) -> list[int]:
    """Stop a worker and its runtimes; return their process ids."""
    statement = (
        "SELECT process.pid FROM sessions_app_runtimeprocess process JOIN sessions_app_runtimeprocess server"
        f" ON server.id = process.server_id WHERE server.pid = {worker.process.pid} AND process.stopped_at IS NULL"
    )
    pids = [worker.process.pid, *(pid for (pid,) in rows(team, statement))]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    return pids


@pytest.mark.skipif(os.geteuid() != 0, reason="naming a host needs root")
@pytest.mark.parametrize("_round", range(ROUNDS))
def test_every_attempt_has_one_outcome_through_kills_and_restarts(chaos, _round):
    team, elsewhere = chaos.team, chaos.start()
    run_id = chaos.webs[0].eval_run("many", num_runs=REPETITIONS, parallelism=PARALLELISM)
    chaos.webs[1].eval_run("many")
    wait_for(lambda: number(team, ENDED.format(run_id)), lambda count: count >= 40)
    paused, began = pause(team, elsewhere), time.monotonic()
    while time.monotonic() - began < PAUSE_S:
        chaos.wait()
        victim = chaos.strike()
        print(
            f"== {time.monotonic() - began:.0f} s: killed a {victim}; {number(team, ENDED.format(run_id))} ended"
        )
    chaos.restore()
    wait_for(lambda: number(team, ACTIVE_RUNS), lambda count: count == 0, PATIENCE_S * 2)
    print(f"== {time.monotonic() - began:.0f} s: all ended")

    outcomes = rows(team, OUTCOMES)
    assert len(outcomes) == CASES * (REPETITIONS + 1)
    assert {status for _, status, *_ in outcomes} == {"passed"}
    assert len({scores for *_, scores in outcomes}) == 1
    assert rows(team, "SELECT DISTINCT status, total - passed FROM evals_app_evalrun") == [("done", 0)]
    assert number(team, OTHER_CODE) == 0

    for pid in paused:
        os.kill(pid, signal.SIGCONT)
    rejoined = (
        "SELECT count(*) FROM sessions_app_runtimeprocess"
        f" WHERE pid = {elsewhere.process.pid} AND app_name = '' AND stopped_at IS NULL"
    )
    wait_for(lambda: number(team, rejoined), lambda count: count == 1)
    time.sleep(processes.HEARTBEAT_S)
    assert rows(team, OUTCOMES) == outcomes


def test_cancelled_run_ends_on_all_workers(team):
    web = team.start_web()
    for _ in range(3):
        team.start_worker()
    team.await_workers(3)
    run_id = web.eval_run(num_runs=5, parallelism=PARALLELISM)
    wait_for(lambda: number(team, RUNNING.format(run_id)), lambda count: count >= 16)
    web.post(f"/api/v1/evals/runs/{run_id}/cancel")
    assert web.end_of_evals(run_id)["status"] == "cancelled"
    wait_for(lambda: number(team, RUNNING.format(run_id)), lambda count: count == 0)
    statuses = dict(rows(team, STATUSES.format(run_id)))
    assert statuses.keys() <= {"cancelled", "passed"}
    assert statuses["cancelled"] > 0


def test_attempts_share_the_parallelism_of_their_run_over_workers(team):
    web = team.start_web()
    for _ in range(2):
        team.start_worker()
    team.await_workers(2)
    run_id = web.eval_run(parallelism=5)
    assert web.end_of_evals(run_id)["status"] == "done"
    assert len(rows(team, WORKERS_OF.format(run_id))) == 2
    times = rows(team, "SELECT started_at, finished_at FROM evals_app_evalattempt")
    assert max(sum(began <= at < ended for began, ended in times) for at, _ in times) <= 5


def test_blocked_process_is_ended_to_cancel_its_attempts(team):
    document = evalset(*[case(f"n{n}", turn('call nap {"seconds": 60}', "")) for n in range(2)])
    write(team.agents / "napper", "naps.evalset.json", document)
    web = team.start_web()
    team.start_worker()
    team.await_workers(1)
    run_id = web.eval_run("naps", app="napper")
    wait_for(lambda: number(team, RUNNING.format(run_id)), lambda count: count > 0)
    time.sleep(1)
    web.post(f"/api/v1/evals/runs/{run_id}/cancel")
    assert web.end_of_evals(run_id)["status"] == "cancelled"
    again = web.eval_run("naps", app="napper", cases=["n0"])
    wait_for(lambda: number(team, RUNNING.format(again)), lambda count: count > 0)
