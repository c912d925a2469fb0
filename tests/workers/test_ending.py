"""Every way to end a worker, with every kind of work: it ends soon after its drain, and leaves no row without an owner.

The agents wait for a file. So a run is longer than the drain, or ends within it, as the test decides.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sessions_app.agent_processes import processes
from tests.patience import PATIENCE_S
from tests.workers.team import Member, Team, Web, own_database, wait_for
from tests.workers.team_command import OwnTeam, browser
from tests.workers.waiting_agents import JUDGED, LOADER, SLEEPER, STREAMER, write_agents

pytestmark = pytest.mark.soak

SHORT_DRAIN_S = 2
LONG_DRAIN_S = 60

Rows = Callable[[str], list[tuple[Any, ...]]]

JOBS = "SELECT count(*) FROM procrastinate_jobs WHERE status = '{}' AND task_name = 'devui:run'"
OWNERS = "SELECT runtime_id FROM sessions_app_run WHERE id IN ('{}', '{}')"
GONE = """
UPDATE sessions_app_runtimeprocess SET stopped_at = extract(epoch FROM now())
WHERE id IN (
    SELECT process.id FROM sessions_app_runtimeprocess process
    JOIN sessions_app_runtimeprocess server ON server.id IN (process.id, process.server_id) WHERE server.pid = {}
) RETURNING id
"""


class Work:
    """One run of each kind, on its way at a worker."""

    def __init__(self, web: Web, rows: Rows) -> None:
        self.web = web
        self.runs = {name: web.run(web.session(name), "wait") for name in (SLEEPER, STREAMER, LOADER)}
        self.eval_run = web.eval_run("wait", app=JUDGED, parallelism=2)
        for name in (SLEEPER, STREAMER):
            wait_for(partial(web.status, self.runs[name]), lambda status: status == "running")
        attempts = (
            "SELECT count(*) FROM evals_app_evalattempt WHERE status = 'running' AND runtime_id IN ({})"
        )
        living = "SELECT id FROM sessions_app_runtimeprocess WHERE stopped_at IS NULL"
        wait_for(lambda: rows(attempts.format(living)), lambda counts: counts == [(2,)])

    def await_ends(self) -> dict[str, str]:
        """Wait until all have ended; return their statuses."""
        statuses = {name: str(self.web.end_of(run_id)["status"]) for name, run_id in self.runs.items()}
        return {**statuses, JUDGED: str(self.web.end_of_evals(self.eval_run)["status"])}


def assert_nothing_is_left(rows: Rows) -> None:
    """Check that no process of a worker lives, and that no row says so."""
    runtimes = "SELECT pid, stopped_at FROM sessions_app_runtimeprocess WHERE server_id IS NOT NULL"
    assert [pid for pid, stopped_at in rows(runtimes) if stopped_at is None or processes.identity(pid)] == []
    assert rows("SELECT id FROM sessions_app_run WHERE status = 'running'") == []


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    folder = tmp_path_factory.mktemp("ending")
    with own_database() as database:
        waiting_for = {"WAITING_FOR": str(folder / "file")}
        team = Team(folder, database, write_agents(folder / "agents"), waiting_for)
        try:
            yield team
        finally:
            team.end()


@pytest.fixture(scope="module")
def web(team: Team) -> Web:
    return team.start_web()


@pytest.fixture
def file(team: Team) -> Path:
    """The file that the agents wait for."""
    return Path(team.environment["WAITING_FOR"])


def signal_once(web: Web, worker: Member) -> None:
    worker.process.send_signal(signal.SIGTERM)


def signal_twice(web: Web, worker: Member) -> None:
    worker.process.send_signal(signal.SIGTERM)
    worker.first_line("The worker finishes its runs")
    worker.process.send_signal(signal.SIGINT)


def drain(web: Web, worker: Member) -> None:
    answer = web.client.post(f"{web.url}/api/v1/workers/{web.id_of(worker)}/drain")
    assert answer.status_code == 204


def remove_at_once(web: Web, worker: Member) -> None:
    assert web.remove(web.id_of(worker)) == 204


@pytest.mark.parametrize(
    ("end", "drain_s"),
    [
        (signal_once, LONG_DRAIN_S),
        (signal_twice, LONG_DRAIN_S),
        (drain, SHORT_DRAIN_S),
        (remove_at_once, LONG_DRAIN_S),
    ],
)
def test_worker_ends_and_hands_back_what_it_has_not_finished(team, web, file, end, drain_s):
    """With the long drain its runs end when it is told to end, unless it is told to end at once."""
    waits_for_runs = end is signal_once
    worker = start_worker(team, drain_s)
    file.unlink(missing_ok=True)
    work = Work(web, team.rows)
    end(web, worker)
    if waits_for_runs:
        worker.first_line("finishes its runs")
        file.touch()
    assert worker.process.wait(PATIENCE_S) == 0
    assert_nothing_is_left(team.rows)
    if not waits_for_runs:
        file.touch()
        next_worker = start_worker(team, LONG_DRAIN_S)
    statuses = work.await_ends()
    assert {statuses[LOADER], statuses[JUDGED]} == {"done"}
    assert {statuses[SLEEPER], statuses[STREAMER]} <= (
        {"done"} if waits_for_runs else {"cancelled", "crashed"}
    )
    if not waits_for_runs:
        assert next_worker.end() == 0


def start_worker(team: Team, drain_s: int, *arguments: str) -> Member:
    worker = team.start_worker(*arguments, environment={"DEVUI_RUNTIME_DRAIN_S": str(drain_s)})
    worker.first_line("Worker with")
    takes_jobs = (
        "SELECT engine_id FROM devui_workers_worker w JOIN sessions_app_runtimeprocess p ON p.id = w.process_id"
        f" WHERE p.pid = {worker.process.pid} AND engine_id IS NOT NULL"
    )
    wait_for(lambda: team.rows(takes_jobs), bool)
    return worker


class SignedIn(Web):
    """A web process with users, from the view of its admin."""

    url = ""

    def __init__(self, url: str, password: str) -> None:
        self.url = url
        self.client = browser(url, "admin", password)


@pytest.mark.parametrize("drain_s", [SHORT_DRAIN_S, LONG_DRAIN_S])
def test_ctrl_c_ends_a_team_whose_agents_go_on(tmp_path, drain_s):
    file = tmp_path / "file"
    variables = {"WAITING_FOR": str(file), "DEVUI_RUNTIME_DRAIN_S": str(drain_s)}
    agents = write_agents(tmp_path / "agents")
    team = OwnTeam(tmp_path, "--webs", "1", "--workers", "1", agents=agents, environment=variables)
    try:
        (url,) = team.urls
        work = Work(SignedIn(url, team.admin_password), team.rows)
        team.member.process.send_signal(signal.SIGINT)
        if drain_s == LONG_DRAIN_S:
            team.member.first_line("finishes its runs")
            file.touch()
        assert team.member.process.wait(PATIENCE_S) == 0
        assert_nothing_is_left(team.rows)
        statuses = dict(team.rows("SELECT id, status FROM sessions_app_run"))
        done = {run_id for run_id, status in statuses.items() if status == "done"}
        assert done == (set(work.runs.values()) if drain_s == LONG_DRAIN_S else set())
    finally:
        file.touch()
        team.drop()


def test_paused_worker_that_takes_its_jobs_again_has_all_its_slots(team, web, file):
    """It counts as gone while its agent loads, and a worker without that agent lives: it gets the same jobs again."""
    file.unlink(missing_ok=True)
    paused = start_worker(team, SHORT_DRAIN_S, "--concurrency", "2")
    other_agents = write_agents(file.parent / "other-agents", [JUDGED])
    loading = [web.run(web.session(LOADER), "wait") for _ in range(2)]
    wait_for(partial(team.rows, JOBS.format("doing")), lambda counts: counts == [(2,)])
    paused.process.send_signal(signal.SIGSTOP)
    team.rows(GONE.format(paused.process.pid))
    other = team.start_worker(agents=other_agents)  # which takes over what gone workers have
    wait_for(partial(team.rows, OWNERS.format(*loading)), lambda owners: owners == [("queue",)] * 2)
    paused.process.send_signal(signal.SIGCONT)
    wait_for(partial(team.rows, OWNERS.format(*loading)), lambda owners: ("queue",) not in owners)
    file.touch()
    assert {web.end_of(run_id)["status"] for run_id in loading} == {"done"}
    file.unlink()
    waiting = [web.run(web.session(STREAMER), "wait") for _ in range(2)]
    for run_id in waiting:
        wait_for(partial(web.status, run_id), lambda status: status == "running")
    file.touch()
    assert {web.end_of(run_id)["status"] for run_id in waiting} == {"done"}
    assert other.end() == 0
    assert paused.end() == 0
