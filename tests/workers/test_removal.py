"""Draining and removing real workers: their work ends or goes on elsewhere."""

from __future__ import annotations

import os
import signal
from collections import Counter

import httpx
import pytest

from tests.patience import PATIENCE_S
from tests.workers.conftest import CASES, WORDS
from tests.workers.team import Web, wait_for

pytestmark = pytest.mark.soak


def statuses(web: Web) -> Counter[str]:
    return Counter(row["status"] for row in web.get("/api/v1/workers")["workers"])


@pytest.mark.skipif(os.geteuid() != 0, reason="naming a host needs root")
def test_drained_worker_of_another_host_finishes_its_run_and_ends(team):
    web = team.start_web()
    worker = team.start_worker(host="elsewhere")
    team.await_workers(1)
    run_id = web.run(web.session(), f"say {WORDS * 6}")
    wait_for(lambda: web.status(run_id), lambda status: status == "running")
    answer = httpx.post(f"{web.url}/api/v1/workers/{web.id_of(worker)}/drain", trust_env=False)
    assert answer.status_code == 204
    assert statuses(web) == {"draining": 1}
    worker.first_line("A person has requested to drain this worker")
    late = web.run(web.session(), "say late")
    assert worker.process.wait(PATIENCE_S) == 0
    assert web.status(run_id) == "done"
    assert web.status(late) == "queued"
    overview = web.get("/api/v1/workers")
    assert overview["workers"] == [], "it has ended in order"
    assert [group["reason"] for group in overview["waiting"]] == ["no_worker"]


def test_removed_worker_that_does_not_answer_is_replaced_and_ends_when_it_wakes(team):
    web = team.start_web()
    paused, _ = team.start_worker(), team.start_worker()
    team.await_workers(2)
    run_id = web.eval_run(parallelism=6)
    ended = "SELECT count(*) FROM evals_app_evalattempt WHERE finished_at IS NOT NULL"
    wait_for(lambda: team.rows(ended)[0][0], lambda count: count >= 6)
    worker_id = web.id_of(paused)
    paused.process.send_signal(signal.SIGSTOP)
    assert web.remove(worker_id) == 204
    assert statuses(web) == {"alive": 1}
    facts = web.end_of_evals(run_id)
    assert (facts["status"], facts["counts"]["passed"]) == ("done", CASES)
    paused.process.send_signal(signal.SIGCONT)
    assert paused.process.wait(PATIENCE_S) == 0
    assert "This worker ends: a person has removed it" in paused.log.read_text()
    assert statuses(web) == {"alive": 1}
    assert web.remove(worker_id) == 404


def test_killed_worker_is_listed_as_gone_until_it_is_removed(team):
    web = team.start_web()
    worker = team.start_worker()
    team.await_workers(1)
    worker_id = web.id_of(worker)
    worker.end(signal.SIGKILL)
    wait_for(lambda: statuses(web), lambda current: current == {"gone": 1})
    assert web.remove(worker_id) == 204
    assert statuses(web) == {}
