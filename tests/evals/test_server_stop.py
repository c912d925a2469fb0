"""Eval runs that are being delivered while their server stops wait for the next server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from devui.supervisor import Supervisor
from devui.supervisor.limits import SupervisorLimits
from evals_app.files import library
from evals_app.metrics.config import RunConfig
from evals_app.models import EvalRun
from evals_app.runs import rerun, run_orders
from evals_app.runs.dispatch import EvalRunDelivery
from evals_app.runs.run_orders import RunOrder
from evals_app.runs.writes import crashes
from evals_app.runs.writes.attempts import start_attempt
from evals_app.runs.writes.runs import assign_runs, claim_run
from sessions_app.agent_processes import processes
from sessions_app.agents.folder import open_folder
from sessions_app.delivery.deliveries import deliveries
from sessions_app.runs import runtime_client
from sessions_app.store.database import units_of_work
from tests import forked_processes
from tests.evals.conftest import wait_until_settled
from tests.patience import PATIENCE_S
from tests.store import store_url

SLOW = """
import pathlib, time
pathlib.Path(__file__).with_name("loading").touch()
time.sleep(2)
"""
"""Lines at the head of an agent that takes long to load."""


@asynccontextmanager
async def serving(agents_dir, **limits) -> AsyncIterator[Supervisor]:
    """A server for agents in a folder; its processes are forked."""
    supervisor = Supervisor(
        agents_dir, environment={"DATABASE_URL": store_url()}, limits=SupervisorLimits(**limits)
    )
    try:
        with forked_processes.starts():
            async with supervisor:
                runtime_client.register(supervisor)
                yield supervisor
    finally:
        runtime_client.register(None)


async def order(echo) -> EvalRun:
    """Order a run of the echo agent."""

    def create():
        evalset = library.register_file(open_folder(echo.parent), echo.name, echo / "s.evalset.json")
        config = RunConfig({"criteria": {"response_match_score": 1.0}}, "the test")
        return run_orders.order_run(evalset, RunOrder(config))

    return await units_of_work.write(create)


async def deliver(run: EvalRun) -> None:
    """Deliver a run until a process has taken it, or none can."""
    await asyncio.wait([deliveries.start(EvalRunDelivery(run.app_name, run.pk))])


async def reload(run: EvalRun) -> EvalRun:
    return await units_of_work.read(EvalRun.objects.get, pk=run.pk)


async def end_of(run: EvalRun) -> tuple[str, int, str]:
    async with asyncio.timeout(PATIENCE_S):
        await wait_until_settled()
    row = await reload(run)
    return row.status, row.finished, row.error


@pytest.mark.soak
async def test_eval_run_sent_while_server_stops_waits_for_next_server(store, echo):
    async with serving(echo.parent) as supervisor:
        run = await order(echo)
        supervisor.refuse_work()
        await deliver(run)
        assert (await reload(run)).status == "pending"
    assert (await reload(run)).status == "pending"
    async with serving(echo.parent):
        assert await end_of(run) == ("done", 3, "")


@pytest.mark.soak
async def test_eval_run_loading_at_server_stop_waits_for_next_server(store, echo):
    agent = echo / "agent.py"
    source = agent.read_text()
    agent.write_text(SLOW + source)
    async with serving(echo.parent):
        runs = [await order(echo), await order(echo)]
        delivering = [asyncio.create_task(deliver(run)) for run in runs]
        while not (echo / "loading").exists():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.02)
    await asyncio.gather(*delivering, return_exceptions=True)
    assert [(await reload(run)).status for run in runs] == ["pending", "pending"]
    agent.write_text(source)
    async with serving(echo.parent):
        assert [await end_of(run) for run in runs] == [("done", 3, "")] * 2


async def test_eval_run_without_started_attempt_waits_for_next_server(store, echo, tmp_path, monkeypatch):
    slow_git = tmp_path / "bin" / "git"
    slow_git.parent.mkdir()
    slow_git.write_text("#!/bin/sh\nexec sleep 30\n")
    slow_git.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{slow_git.parent}:{os.environ['PATH']}")
        async with serving(echo.parent):
            run = await order(echo)
            await deliver(run)
            while (await reload(run)).status != "running":  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.02)
    row = await reload(run)
    assert (row.status, row.started_at, row.limits_from) == ("pending", None, None)
    async with serving(echo.parent):
        assert await end_of(run) == ("done", 3, "")


@pytest.mark.parametrize(
    ("attempts_started", "is_closing", "continue_evals", "status"),
    [
        (0, True, False, "pending"),
        (1, True, False, "crashed"),
        (0, False, False, "crashed"),
        (1, True, True, "running"),
        (1, False, True, "crashed"),
    ],
)
async def test_eval_run_of_killed_process_waits_only_for_a_stopping_server(
    store, echo, attempts_started, is_closing, continue_evals, status
):
    run = await order(echo)
    process = await units_of_work.write(processes.register, "p" * 32, run.app_name, 2**22 + 1, "")
    await units_of_work.write(claim_run, run.pk, process.pk)
    for attempt in await units_of_work.read(lambda: list(run.attempts.all()[:attempts_started])):
        await units_of_work.write(start_attempt, attempt.pk)
    await units_of_work.write(
        crashes.end_with_process,
        process.pk,
        "Killed.",
        [],
        is_closing=is_closing,
        continue_evals=continue_evals,
    )
    assert (await reload(run)).status == status


@pytest.mark.soak
async def test_pending_eval_run_of_killed_server_moves_to_running_server(store, echo):
    async with serving(echo.parent, sweep=0.05):
        run = await order(echo)
        dead = await units_of_work.write(processes.register, "w" * 32, processes.SERVER_APP, 2**22 + 1, "")
        await units_of_work.write(assign_runs, [run.pk], dead.pk)
        assert await end_of(run) == ("done", 3, "")


async def test_pending_eval_run_without_agent_at_next_start_fails_with_reason(store, echo, tmp_path):
    async with serving(echo.parent) as supervisor:
        run = await order(echo)
        supervisor.refuse_work()
        await deliver(run)
    (tmp_path / "none").mkdir()
    async with serving(tmp_path / "none"):
        status, _, error = await end_of(run)
    assert status == "failed"
    assert f"No agent {run.app_name!r}" in error


async def test_pending_eval_run_of_ended_command_has_crashed(store, echo):
    run = await order(echo)
    dead = await units_of_work.write(processes.register, "c" * 32, run.app_name, 2**22 + 1, "")
    await units_of_work.write(assign_runs, [run.pk], dead.pk)
    async with serving(echo.parent):
        assert (await end_of(run))[0] == "crashed"


async def test_pending_eval_run_of_ended_server_can_be_resumed_without_server(store, echo):
    run = await order(echo)
    dead = await units_of_work.write(processes.register, "w" * 32, processes.SERVER_APP, 2**22 + 1, "")
    await units_of_work.write(assign_runs, [run.pk], dead.pk)
    await units_of_work.write(processes.mark_stopped, dead.pk)
    await units_of_work.write(crashes.crash_orphans)
    assert (await reload(run)).status == "pending"
    await units_of_work.write(crashes.crash_abandoned, run.pk)
    assert (await units_of_work.write(rerun.resume, run)).status == "pending"
