"""Execution of a run from its claim to its end, called by the runtime, the command line and test suites."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from evals_app.engine.executor import AttemptWork, Executor, LocalExecutor
from evals_app.engine.run_monitor import ProgressCallback, RunEnding, RunMonitor
from evals_app.engine.watchdog import Watchdog
from evals_app.files.stored_evalsets import store_metrics
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs import attempt_status, prices, writes
from evals_app.runs.attempt_status import STORE_LOST
from evals_app.runs.limits import Limits
from evals_app.runs.refusals import HasChanged
from evals_app.runs.replay.policy import ReplayPolicy
from evals_app.runs.writes import Failure, Outcome, RunFacts
from sessions_app.store import retry
from sessions_app.store.stopwatch import Stopwatch

if TYPE_CHECKING:
    from evals_app.engine.agent_source import AgentSource
    from evals_app.engine.attempt import RunPlan

PROCESS_STOPPED = "The process that ran it was stopped."
"""Reason of a run that ends with its process: a restart, or an interrupt at the command line."""

END_WRITE_S = 5.0
"""Seconds that the end of the process waits for the store to take the end of its run."""

MAX_LOST_TRIES = 5
"""Tries of an attempt that may lose the store. The attempt's own writes may be what fills the disk."""

MakeExecutor = Callable[[AttemptWork, int], Executor]
"""Builds an executor from the function that carries out one attempt and the parallelism."""


class AgentExited(RuntimeError):
    """The agent's code called `sys.exit`. The attempt ends, the process does not."""


async def execute_run(
    eval_run_id: str,
    agent_source: AgentSource,
    cancelled: asyncio.Event,
    *,
    runtime_id: str | None = None,
    progress: ProgressCallback | None = None,
    make_executor: MakeExecutor = LocalExecutor,
) -> None:
    """Carry out a pending run to its end. Failures are stored in its rows and not raised.

    Args:
        eval_run_id: the run; ignored unless it is pending.
        agent_source: the source of the agent.
        cancelled: set it to stop the run.
        runtime_id: the `RuntimeProcess` that executes the run; when that process dies, the run has crashed.
        progress: called for every attempt that starts or ends.
        make_executor: builds the executor of the attempts; by default they are tasks of this process.
    """
    run = await retry.write(writes.claim_run, eval_run_id, runtime_id, time.time())
    if run is None:
        return
    watch = Stopwatch(run.started_at)
    try:
        plan = await prepare_plan(run, agent_source, progress)
        ending = await _run_attempts(run, plan, watch, cancelled, progress, make_executor)
    except asyncio.CancelledError:
        with contextlib.suppress(TimeoutError):  # whoever sees that the process has gone ends the run then
            async with asyncio.timeout(END_WRITE_S):
                await retry.write(
                    writes.finish_run,
                    run.id,
                    EvalRun.Status.CANCELLED,
                    because=PROCESS_STOPPED,
                    now=watch.now(),
                )
        raise
    except BaseException as error:
        end = partial(writes.finish_run, run.id, EvalRun.Status.FAILED, _failure(error), now=watch.now())
        await retry.write(end)
    else:
        end = partial(writes.finish_run, run.id, ending.status, because=ending.because, now=watch.now())
        await retry.write(end)


async def prepare_plan(
    run: EvalRun, agent_source: AgentSource, progress: ProgressCallback | None = None
) -> RunPlan:
    """Load the agent, read the configuration and the cases, and store the facts of the run.

    Raises:
        BadInput: the configuration or a case is invalid.
        HasChanged: the run is resumed, and the agent is not the one that ran before.
        Exception: loading the agent failed.
    """
    from google.adk.evaluation.eval_set import EvalSet

    from evals_app.engine import evaluators
    from evals_app.engine.agent_source import collect_facts
    from evals_app.engine.attempt import RunPlan, warm_up

    agent, app = agent_source.load()
    config = evaluators.read_config(json.loads(run.config))
    plan = RunPlan(
        app_name=agent_source.app_name,
        agent=agent,
        app=app,
        config=config,
        metrics=evaluators.metrics_of(config),
        cases=EvalSet.model_validate_json(run.version.content).eval_cases,
        policy=ReplayPolicy.of(run.policy),
        retry_seconds=Limits.read(run.limits).retry_seconds,
        waiting=(lambda attempt: progress(attempt, None)) if progress else None,
    )
    warm_up(plan.metrics)
    facts = await collect_facts(agent_source, agent)
    _require_same_agent(run, facts)
    await retry.write(writes.note_facts, run.id, facts)
    await retry.write(store_metrics, evaluators.describe_metrics(), facts.adk_version)
    return plan


def _require_same_agent(run: EvalRun, facts: RunFacts) -> None:
    """Refuse to resume a run with another agent: attempts of a run must be comparable.

    Raises:
        HasChanged: code, ADK or models have changed; the message names which.
    """
    if not run.resumed or not run.finished:
        return
    before = {
        "its code": (run.code_version, facts.code_version),
        "ADK": (run.adk_version, facts.adk_version),
        "its models": (json.loads(run.agent_models), dict(facts.models)),
    }
    for part, (recorded, now) in before.items():
        if recorded and recorded != now:
            raise HasChanged(
                f"The run cannot go on: {part} changed from {recorded} to {now} since it began.",
                hint="Run it again from the start; what has run stays as it is.",
            )


async def _run_attempts(
    run: EvalRun,
    plan: RunPlan,
    watch: Stopwatch,
    cancelled: asyncio.Event,
    progress: ProgressCallback | None,
    make_executor: MakeExecutor,
) -> RunEnding:
    costs = prices.prices_from_json(json.loads(run.prices))

    async def work(attempt_pk: int) -> None:
        while attempt := await retry.write(writes.start_attempt, attempt_pk, watch.now()):
            if progress:
                progress(attempt, None)
            outcome = _add_cost(await _outcome_of(plan, attempt), costs, attempt)
            failure = outcome.failure
            if (
                failure
                and failure.type == STORE_LOST
                and attempt_status.count_store_losses(attempt) < MAX_LOST_TRIES - 1
            ):
                began = attempt.started_at
                await retry.write(writes.repeat_attempt, attempt_pk, began, failure, watch.now())
                continue
            is_stored = await retry.write(writes.finish_attempt, attempt_pk, outcome, watch.now())
            if progress and is_stored:
                progress(attempt, outcome)
            course.note_end()
            return

    course = RunMonitor(run, make_executor(work, run.parallelism), watch, cancelled, progress)
    async with Watchdog(run.id, course.limits.attempt_seconds, watch):
        return await course.follow()


async def _outcome_of(plan: RunPlan, attempt: EvalAttempt) -> Outcome:
    """Run an attempt. `sys.exit` and other BaseExceptions of the agent end this attempt only."""
    from evals_app.engine.attempt import error_outcome, failure_from, run_attempt

    try:
        return await run_attempt(plan, attempt)
    except SystemExit as error:
        exited = AgentExited(f"The agent called sys.exit({error.code!r}).")
        return await error_outcome(attempt, failure_from(exited.with_traceback(error.__traceback__)))
    except asyncio.CancelledError as error:
        if (task := asyncio.current_task()) is None or task.cancelling():
            raise
        return await error_outcome(attempt, failure_from(error))
    except BaseException as error:
        return await error_outcome(attempt, failure_from(error))


def _add_cost(outcome: Outcome, costs: prices.Prices, attempt: EvalAttempt) -> Outcome:
    """Return the outcome with its cost, if the run's price table has the models."""
    if outcome.cost is not None or not outcome.by_model:
        return outcome
    return replace(outcome, cost=costs.cost(outcome.by_model, attempt.started_at or 0.0))


def _failure(error: BaseException) -> Failure:
    from evals_app.engine.attempt import failure_from

    return failure_from(error)
