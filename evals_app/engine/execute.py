"""A run carried out in this process: what the runtime and the command line both call."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from evals_app import writes
from evals_app.models import EvalAttempt, EvalRun
from evals_app.writes import Failure, Outcome
from sessions_app import db

if TYPE_CHECKING:
    from evals_app.engine.attempt import Plan
    from evals_app.engine.source import AgentSource

GLANCE = 1.0
"""Seconds between two looks at whether somebody asked the run to stop."""

Progress = Callable[[EvalAttempt, Outcome | None], None]
"""Is told of every attempt: without an outcome when it starts, with it when it has ended."""


async def execute_run(
    eval_run_id: str,
    agent_source: AgentSource,
    cancelled: asyncio.Event,
    *,
    runtime_id: str | None = None,
    progress: Progress | None = None,
) -> None:
    """Carry out a pending run to its end. Its rows say everything; nothing is raised for what a run can meet.

    Args:
        eval_run_id: the run; one that is not pending (any more) is left alone.
        agent_source: where the agent comes from.
        cancelled: set it to stop the run.
        runtime_id: the `RuntimeProcess` that does it; when that is gone, the run has crashed.
        progress: is told of every attempt that starts or ends.
    """
    run = await db.write(writes.claim_run, eval_run_id, runtime_id)
    if run is None:
        return
    try:
        plan = await prepare(run, agent_source)
        await _carry_out(run, plan, cancelled, progress)
    except asyncio.CancelledError:
        await db.write(writes.finish_run, run.id, EvalRun.Status.CANCELLED)
        raise
    except Exception as error:
        await db.write(writes.finish_run, run.id, EvalRun.Status.FAILED, _failure(error))
    else:
        status = EvalRun.Status.CANCELLED if cancelled.is_set() else EvalRun.Status.DONE
        await db.write(writes.finish_run, run.id, status)


async def prepare(run: EvalRun, agent_source: AgentSource) -> Plan:
    """Load the agent, read the configuration and the cases, and note what runs.

    Raises:
        BadInput: the configuration or a case cannot be used.
        Exception: whatever loading the agent raises.
    """
    from google.adk.evaluation.eval_set import EvalSet

    from evals_app.engine import metrics, source
    from evals_app.engine.attempt import Plan, warm_up

    agent, app = agent_source.load()
    config = metrics.read_config(json.loads(run.config))
    plan = Plan(
        app_name=agent_source.app_name,
        agent=agent,
        app=app,
        config=config,
        metrics=metrics.metrics_of(config),
        cases=EvalSet.model_validate_json(run.version.content).eval_cases,
    )
    warm_up(plan.metrics)
    facts = await source.facts_of(agent_source, agent)
    await db.write(writes.note_facts, run.id, facts)
    await db.write(writes.remember_metrics, metrics.describe_metrics(), facts.adk_version)
    return plan


async def _carry_out(run: EvalRun, plan: Plan, cancelled: asyncio.Event, progress: Progress | None) -> None:
    from evals_app.engine.attempt import run_attempt
    from evals_app.engine.executor import Executor

    async def work(attempt_pk: int) -> None:
        if cancelled.is_set() or not await db.write(writes.start_attempt, attempt_pk):
            return
        attempt = await db.read(EvalAttempt.objects.get, pk=attempt_pk)
        if progress:
            progress(attempt, None)
        outcome = await run_attempt(plan, attempt)
        await db.write(writes.finish_attempt, attempt_pk, outcome)
        if progress:
            progress(attempt, outcome)

    executor = Executor(work, run.parallelism)
    for attempt_pk in await db.read(_pending, run.id):
        executor.enqueue(attempt_pk)
    watch = asyncio.create_task(_watch(run.id, cancelled))
    everything = asyncio.create_task(executor.join())
    try:
        done, _ = await asyncio.wait({watch, everything}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        watch.cancel()
        everything.cancel()
        await executor.stop()
        await asyncio.gather(watch, everything, return_exceptions=True)


async def _watch(run_id: str, cancelled: asyncio.Event) -> None:
    """Return once the run shall stop: asked here, or by its row from another process."""
    while not cancelled.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(cancelled.wait(), GLANCE)
        if await db.read(_shall_stop, run_id):
            cancelled.set()


def _shall_stop(run_id: str) -> bool:
    row = EvalRun.objects.filter(pk=run_id).values_list("status", "cancel_requested_at").first()
    return row is None or row[0] != EvalRun.Status.RUNNING or row[1] is not None


def _pending(run_id: str) -> list[int]:
    rows = EvalAttempt.objects.filter(run_id=run_id, status=EvalAttempt.Status.PENDING)
    return list(rows.order_by("case_index", "repetition").values_list("pk", flat=True))


def _failure(error: Exception) -> Failure:
    from evals_app.engine.attempt import failure_of

    return failure_of(error)
