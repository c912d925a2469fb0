"""Waits for the ends of runs, by jobs that may be delivered twice."""

from __future__ import annotations

import asyncio
import time

from devui.workers.run_watch import WorkerRunWatch
from sessions_app.agent_processes import processes
from sessions_app.runs import lifecycle, pauses
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Run, RunPause, RuntimeProcess
from tests.patience import PATIENCE_S
from tests.runtime.run_rows import new_run, new_session

WORKER = "w1"


async def cancel_nothing(app_name: str, run_id: str) -> None:
    raise AssertionError(run_id)


def run_at_worker() -> str:
    processes.register(WORKER, processes.SERVER_APP, 1, "")
    run = new_run(new_session())
    lifecycle.assign(run.pk, WORKER)
    return str(run.pk)


async def test_all_jobs_of_a_run_end_with_it(transactional_db):
    """A job that was delivered again must not take the first one's end, or the slot of that is lost for good."""
    run_id = await units_of_work.write(run_at_worker)
    watch = WorkerRunWatch(WORKER, cancel_nothing)
    following = asyncio.create_task(watch.follow())
    waits = [asyncio.create_task(watch.wait_until_gone(run_id)) for _ in range(3)]
    waits[1].cancel()
    await asyncio.wait([waits[1]])
    assert [wait.done() for wait in waits] == [False, True, False]
    await units_of_work.write(lifecycle.finish, run_id, lifecycle.Status.DONE)
    await asyncio.wait_for(asyncio.gather(waits[0], waits[2]), 60)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


def pause_run(run_id: str) -> None:
    RuntimeProcess.objects.filter(pk=WORKER).update(server=WORKER)
    Run.objects.filter(pk=run_id).update(status=Run.Status.RUNNING)
    pauses.add_pause(run_id, pauses.Kind.TOOL, "desk", "book", {}, time.time(), 600)


def decide_pause(run_id: str) -> None:
    pause = RunPause.objects.get(run=run_id)
    pauses.decide(run_id, pause.pk, {"action": pauses.CONTINUE}, "")


async def test_job_of_a_paused_run_ends_so_that_its_slot_is_free(transactional_db):
    run_id = await units_of_work.write(run_at_worker)
    watch = WorkerRunWatch(WORKER, cancel_nothing)
    following = asyncio.create_task(watch.follow())
    wait = asyncio.create_task(watch.wait_until_gone(run_id))
    await units_of_work.write(pause_run, run_id)
    await asyncio.wait_for(wait, PATIENCE_S)
    assert await units_of_work.read(lifecycle.get_status, run_id) == Run.Status.RUNNING
    await asyncio.wait_for(watch.wait_until_idle(), PATIENCE_S)
    await units_of_work.write(decide_pause, run_id)
    idle = asyncio.create_task(watch.wait_until_idle())
    await asyncio.wait([idle], timeout=0.5)
    assert not idle.done()
    await units_of_work.write(lifecycle.finish, run_id, Run.Status.DONE)
    await asyncio.wait_for(idle, PATIENCE_S)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
