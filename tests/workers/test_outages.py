"""PostgreSQL goes away and comes back: workers take jobs again, also while their runs go on."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from sessions_app.agent_processes import processes
from tests.postgres import Cluster
from tests.workers.team import Team, Web, wait_for
from tests.workers.waiting_agents import STREAMER, write_agents

pytestmark = pytest.mark.soak

OUTAGE_S = 12.0
"""Long enough for pauses that double to be longer than what is waited for."""


@pytest.fixture
def team(tmp_path: Path, cluster: Cluster) -> Iterator[Team]:
    """A team whose agents wait for a file."""
    variables = {"WAITING_FOR": str(tmp_path / "file")}
    team = Team(tmp_path, cluster.url, write_agents(tmp_path / "agents", [STREAMER]), variables)
    try:
        yield team
    finally:
        team.end()


def run_until_it_waits(web: Web) -> str:
    run_id = web.run(web.session(STREAMER), "wait")
    wait_for(partial(web.status, run_id), lambda status: status == "running")
    return run_id


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_worker_with_a_run_in_progress_takes_the_next_after_an_outage(team, cluster, tmp_path, mode):
    web = team.start_web()
    team.start_worker()
    team.await_workers(1)
    runs = [run_until_it_waits(web)]
    cluster.stop(mode)
    time.sleep(OUTAGE_S)
    cluster.start()
    wait_for(lambda: web.client.get(f"{web.url}/ready").status_code, lambda status: status == 200)
    runs.append(run_until_it_waits(web))
    (tmp_path / "file").touch()
    assert [web.end_of(run_id)["status"] for run_id in runs] == ["done", "done"]


@pytest.mark.parametrize("outage", ["stopped", "hangs"])
def test_worker_ends_while_its_store_is_away(team, cluster, outage):
    web = team.start_web()
    worker = team.start_worker()
    team.await_workers(1)
    run_until_it_waits(web)
    (cluster.stop if outage == "stopped" else cluster.pause)()
    try:
        worker.process.send_signal(signal.SIGTERM)
        worker.first_line("The worker finishes its runs")
        worker.end(signal.SIGTERM)
    finally:
        cluster.start() if outage == "stopped" else cluster.pause(signal.SIGCONT)
    assert processes.identity(worker.process.pid) is None


def test_web_process_ends_while_its_store_hangs_and_a_request_waits_for_it(team, cluster):
    web = team.start_web()
    assert web.client.get(f"{web.url}/sessions/").status_code == 200
    cluster.pause()
    try:
        with ThreadPoolExecutor() as pool:
            pool.submit(web.client.get, f"{web.url}/sessions/")
            time.sleep(1)
            web.end()
    finally:
        cluster.pause(signal.SIGCONT)
    assert processes.identity(web.process.pid) is None
