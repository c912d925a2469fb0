"""A store that a newer DevUI has migrated while processes of this one run."""

from __future__ import annotations

import httpx
import pytest

from tests.patience import PATIENCE_S
from tests.workers.team import wait_for

pytestmark = pytest.mark.soak

MIGRATE = (
    "INSERT INTO django_migrations (app, name, applied)"
    " VALUES ('sessions_app', '9999_from_the_future', now()) RETURNING 1"
)


def test_worker_finishes_its_runs_and_ends_and_the_server_is_not_ready(team):
    web, worker = team.start_web(), team.start_worker()
    team.await_workers(1)
    run_id = web.run(web.session(), "say " + " ".join(f"w{number}" for number in range(60)))
    wait_for(lambda: web.status(run_id), lambda status: status == "running")
    team.rows(MIGRATE)
    ready = httpx.get(f"{web.url}/ready", trust_env=False)
    assert (ready.status_code, ready.json()["code"]) == (503, "schema_too_new")
    assert worker.process.wait(PATIENCE_S) == 0
    assert web.end_of(run_id)["status"] == "done"
    log = worker.log.read_text()
    assert (
        "has the unknown migration sessions_app.9999_from_the_future. This worker takes no more runs." in log
    )
    assert "Traceback" not in log
    refused = team.start_worker()
    assert refused.process.wait(PATIENCE_S) == 2
    assert "The store was written by a newer DevUI" in refused.log.read_text()
