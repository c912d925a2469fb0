"""Rate limits and requested waits hold for the eval runs of all workers together."""

from __future__ import annotations

import sys

import pytest

from tests import forked_processes
from tests.evals.builders import case, evalset, turn, write
from tests.runtime.web_command import ROOT
from tests.workers.model_service import model_service, write_asker
from tests.workers.team import own_database

pytestmark = pytest.mark.soak

LIMITS = '[[limit]]\nmodel = "gemini-*"\nrequests_per_minute = 12\ntokens_per_minute = 100_000\n'
ORDER = {"app": "asker", "evalset": "ask", "parallelism": 4}


@pytest.fixture
def start_team(team, monkeypatch):
    """Start a web process and two workers, each for one run at once, whose agent asks a service."""
    monkeypatch.setenv("GOOGLE_API_KEY", "none")
    write_asker(team.agents)
    write(
        team.agents / "asker",
        "ask.evalset.json",
        evalset(*[case(f"c{n}", turn("go", "fine")) for n in range(10)]),
    )

    def start(service):
        monkeypatch.setenv("MODEL_SERVICE", service.url)
        web = team.start_web()
        for _ in range(2):
            team.start_worker("--concurrency", "1")
        team.await_workers(2)
        return web

    return start


def test_service_refuses_no_request_of_two_workers_under_its_limit(team, start_team):
    (team.agents / "rate_limits.toml").write_text(LIMITS)
    with model_service(limit=12) as service:
        web = start_team(service)
        runs = [web.eval_run(**ORDER) for _ in range(2)]
        ends = [web.end_of_evals(run_id) for run_id in runs]
    assert [end["counts"]["passed"] for end in ends] == [10, 10]
    assert (len(service.asked), service.refusals) == (20, [])
    assert service.asked[-1] - service.asked[0] < 80
    assert team.rows("SELECT count(DISTINCT runtime_id) FROM evals_app_evalattempt") == [(2,)]


def test_wait_that_a_service_requests_of_one_worker_holds_for_the_other(team, start_team):
    with model_service(limit=1000, refused=frozenset({6}), retry_after=4) as service:
        web = start_team(service)
        runs = [web.eval_run(**ORDER, num_runs=2) for _ in range(2)]
        ends = [web.end_of_evals(run_id) for run_id in runs]
    assert [end["counts"]["passed"] for end in ends] == [20, 20]
    (refused_at,) = service.refusals
    during = [at - refused_at for at in service.asked if refused_at + 1 < at < refused_at + 4]
    assert during == []
    assert service.asked[-1] > refused_at + 4


def test_processes_share_the_limit_of_one_database():
    with own_database() as database:
        command = [sys.executable, "-m", "tests.evals.concurrent_reservations", database, "4", "10", "25"]
        done = forked_processes.run(command, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert sum(map(int, done.stdout.split())) == 25
