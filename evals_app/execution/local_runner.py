"""Runs that this process executes itself, without a server: for the command line and for test suites."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import uuid
import warnings
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from django.db.models import Q

from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs import attempt_status
from evals_app.runs.attempt_status import BLOCKED_PROCESS, ENDED_PROCESS, JUDGE_ENDED_PROCESS
from evals_app.runs.rerun import reload_run
from evals_app.runs.writes import crashes
from evals_app.runs.writes.crashes import ProcessDeath
from evals_app.runs.writes.outcomes import Outcome
from evals_app.runs.writes.runs import STOPPED_WITH_PROCESS, assign_runs, crash_run, finish_run
from sessions_app.agent_processes import processes
from sessions_app.agents.folder import AgentsFolder
from sessions_app.delivery.failure import Failure
from sessions_app.runs.background import repeat
from sessions_app.store.database import gc_tuning, retry, units_of_work
from sessions_app.store.errors import StoreFault

GC_THRESHOLDS = (50_000, 20, 50)
"""Thresholds of the garbage collector for young and older objects (`gc.set_threshold`)."""

CANCEL_WAIT_S = 1.0
"""Seconds that leftover tasks of agents have to end, in addition to those of their attempt."""

Result = TypeVar("Result")


class RunListener(Protocol):
    """Receives the progress of runs."""

    def begin(self, run: EvalRun, alone: int) -> None:
        """A run is about to start; `alone` of its attempts were in flight when a process died."""

    def attempt(self, attempt: EvalAttempt, outcome: Outcome | None) -> None:
        """An attempt has started, waits for a model or continues (no outcome), or has ended."""

    def end(self, run: EvalRun) -> None:
        """A run has ended."""


def run_in_loop(work: Coroutine[Any, Any, Result], stop: signal.Signals | None = None) -> Result:
    """Run a coroutine as `asyncio.run` does, even if an agent calls `sys.exit` or ignores cancellation.

    asyncio stops the loop on a `SystemExit` in any task; the attempt handles it, and the loop is started again. A loop
    with a task that ignores its cancellation is left open: closing it would wait forever.

    Args:
        stop: a signal that cancels the work, as Ctrl-C does.
    """
    runner = asyncio.Runner()
    main = runner.get_loop().create_task(work)
    if stop is not None:
        runner.get_loop().add_signal_handler(stop, main.cancel)
    try:
        while True:
            try:
                runner.run(_wait_for(main))
                return main.result()
            except (SystemExit, KeyboardInterrupt):
                if main.done():
                    raise
    finally:
        if runner.run(_cancel_remaining_tasks()):
            runner.close()


async def _cancel_remaining_tasks() -> bool:
    """Cancel the remaining tasks; tell whether all ended in time."""
    if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in tasks:
            task.cancel()
        _, tasks = await asyncio.wait(tasks, timeout=CANCEL_WAIT_S)
    return not tasks


async def _wait_for(main: asyncio.Task[Any]) -> None:
    """Wait for a task; a cancellation (by Ctrl-C) is passed to the task."""
    try:
        await asyncio.wait([main])
    except asyncio.CancelledError:
        main.cancel()
        await asyncio.wait([main])
        raise


async def execute_runs(
    runs: Sequence[EvalRun], agents: AgentsFolder, app_name: str, listener: RunListener
) -> list[EvalRun]:
    """Execute pending runs of an agent one after the other; return them as they ended."""
    load_engine()
    from evals_app.execution.agent_source import find_source
    from evals_app.execution.run_execution import execute_run

    source = find_source(agents, app_name)
    ended = []
    async with _process_row(app_name, source.code_version) as runtime_id:
        await retry.write(assign_runs, [run.pk for run in runs], runtime_id)
        for run in runs:
            listener.begin(run, await retry.read(attempt_status.count_alone, run))
            await execute_run(
                run.id, source, asyncio.Event(), runtime_id=runtime_id, progress=listener.attempt
            )
            ended.append(await retry.read(reload_run, run.pk))
            listener.end(ended[-1])
    return ended


def cancel_runs(runs: Sequence[EvalRun]) -> list[EvalRun]:
    """Cancel the active runs, whose process is stopped; return all of them as they are then."""
    for run in map(reload_run, [run.pk for run in runs]):
        if finish_run(run.pk, EvalRun.Status.CANCELLED, because=STOPPED_WITH_PROCESS) and run.runtime_id:
            processes.mark_stopped(run.runtime_id)
    return [reload_run(run.pk) for run in runs]


def continue_after_death(
    runs: Sequence[EvalRun], death: ProcessDeath, listener: RunListener
) -> list[EvalRun]:
    """Return the runs that wait for another process after theirs died. The others have ended.

    The listener receives the attempts at fault, whose process could not report them, and the runs that end.

    Args:
        runs: the runs that were active when the process died.
    """
    process_id = processes.own_id()
    if process_id is not None:
        retry.run_sync(processes.mark_alive, process_id)  # it sent no heartbeat while the runs were another's
    for runtime_id in {run.runtime_id for run in runs if run.runtime_id} - {process_id}:
        retry.run_sync(crashes.continue_without_process, runtime_id, death)
        retry.run_sync(processes.mark_stopped, runtime_id)
    waiting = []
    for run in runs:
        if run.runtime_id in {None, process_id}:  # it died before it took one
            retry.run_sync(crash_run, run.pk, str(death))
        _report_attempts_at_fault(run, listener)
        after = retry.run_sync(reload_run, run.pk)
        if after.active:
            waiting.append(after)
        else:
            listener.end(after)
    return waiting


def _report_attempts_at_fault(run: EvalRun, listener: RunListener) -> None:
    at_fault = Q(
        error_type__in=(ENDED_PROCESS, BLOCKED_PROCESS, JUDGE_ENDED_PROCESS),
        started_at__gte=run.started_at or 0.0,
    )
    for attempt in run.attempts.filter(at_fault).order_by("finished_at"):
        failure = Failure(attempt.error_type, attempt.error, attempt.traceback)
        listener.attempt(attempt, Outcome(attempt.status, failure=failure))


def load_engine() -> None:
    """Import ADK with the garbage collector off, because imported objects stay.

    Then relax the collector: attempts create many short-lived objects.
    """
    gc.disable()
    try:
        from evals_app.execution.attempt import warm_up

        warm_up(())
    finally:
        gc.set_threshold(*GC_THRESHOLDS)
        gc_tuning.end_startup()


@contextlib.asynccontextmanager
async def _process_row(app_name: str, code_version: str) -> AsyncIterator[str]:
    """Register this process while it runs evals, so that others can tell when its runs crashed."""
    runtime_id = uuid.uuid4().hex
    await units_of_work.write(processes.register, runtime_id, app_name, os.getpid(), code_version)
    beat = partial(units_of_work.write, processes.record_heartbeat, runtime_id)
    beating = asyncio.create_task(repeat(beat, processes.HEARTBEAT_S, "The heartbeat of this process"))
    try:
        yield runtime_id
    finally:
        beating.cancel()
        with contextlib.suppress(StoreFault):  # the next program sees that this one has gone
            await units_of_work.write(processes.mark_stopped, runtime_id)


@contextlib.contextmanager
def own_new_runs(app_name: str) -> Iterator[None]:
    """Let this process own the runs that it creates until another process executes them."""
    runtime_id, before = uuid.uuid4().hex, processes.own_id()
    processes.register(runtime_id, app_name, os.getpid(), "")
    processes.set_own_id(runtime_id)
    try:
        yield
    finally:
        processes.set_own_id(before)
        processes.mark_stopped(runtime_id)


@contextlib.contextmanager
def quiet_logging() -> Iterator[None]:
    """Silence the logs of ADK and of agents: results show what a user must know.

    ADK's logger gets a handler because without one Python writes its warnings to the error stream.
    """
    silence = logging.NullHandler()
    adk, root = logging.getLogger("google_adk"), logging.getLogger()
    before = adk.propagate, [handler.level for handler in root.handlers]
    adk.propagate = False
    adk.addHandler(silence)
    for handler in root.handlers:
        handler.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"\[EXPERIMENTAL\]")
            yield
    finally:
        adk.propagate = before[0]
        adk.removeHandler(silence)
        for handler, level in zip(root.handlers, before[1], strict=False):
            handler.setLevel(level)
