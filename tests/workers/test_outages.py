"""PostgreSQL goes away and comes back: workers take jobs again, also while their runs go on."""

from __future__ import annotations

import time
from functools import partial

import pytest

from tests.workers.team import Team, wait_for
from tests.workers.waiting_agents import STREAMER, write_agents

pytestmark = pytest.mark.soak

OUTAGE_S = 12.0
"""Long enough for pauses that double to be longer than what is waited for."""


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_worker_with_a_run_in_progress_takes_the_next_after_an_outage(tmp_path, cluster, mode):
    file = tmp_path / "file"
    variables = {"WAITING_FOR": str(file)}
    team = Team(tmp_path, cluster.url, write_agents(tmp_path / "agents"), variables)
    try:
        web = team.start_web()
        team.start_worker()
        team.await_workers(1)
        runs = [web.run(web.session(STREAMER), "wait")]
        wait_for(partial(web.status, runs[0]), lambda status: status == "running")
        cluster.stop(mode)
        time.sleep(OUTAGE_S)
        cluster.start()
        wait_for(lambda: web.client.get(f"{web.url}/ready").status_code, lambda status: status == 200)
        runs.append(web.run(web.session(STREAMER), "wait"))
        wait_for(partial(web.status, runs[1]), lambda status: status == "running")
        file.touch()
        assert [web.end_of(run_id)["status"] for run_id in runs] == ["done", "done"]
    finally:
        team.end()
