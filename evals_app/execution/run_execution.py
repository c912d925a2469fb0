"""Execution of a run from its claim to its end, called by the runtime, the command line and test suites."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from functools import partial

from google.adk.evaluation.eval_set import EvalSet

from evals_app.execution import evaluators, process_facts
from evals_app.execution.agent_source import AgentSource, collect_facts, load_source
from evals_app.execution.attempt import RunPlan, run_attempt, warm_up
from evals_app.execution.attempt_tries import ProgressCallback
from evals_app.execution.fixtures import prepare_fixtures
from evals_app.execution.run_monitor import RunMonitor
from evals_app.execution.variants import apply_variant
from evals_app.files.library import store_metrics
from evals_app.models import EvalRun
from evals_app.rates.rate_limits import find_rate_limits
from evals_app.runs.limits import EvalRunLimits
from evals_app.runs.replay.policy import ReplayPolicy
from evals_app.runs.rerun import HasChanged
from evals_app.runs.writes import model_usage, runs
from evals_app.runs.writes.outcomes import ProcessFacts, RunFacts
from evals_app.variants.variant import read_run_variant
from sessions_app.delivery.failure import Failure
from sessions_app.store.database import retry
from sessions_app.store.database.stopwatch import Stopwatch

END_WRITE_S = 5.0
"""Seconds that a process which is stopped waits for the end of its run to be stored."""


async def execute_run(
    eval_run_id: str,
    agent_source: AgentSource,
    cancelled: asyncio.Event,
    *,
    runtime_id: str | None = None,
    progress: ProgressCallback | None = None,
    continue_elsewhere: bool = False,
) -> None:
    """Carry out a pending run to its end. Failures are stored in its rows and not raised.

    Args:
        eval_run_id: the run; ignored unless it is pending.
        cancelled: set it to stop the run.
        runtime_id: the `RuntimeProcess` that executes the run; when that process dies, the run has crashed.
        progress: called for every attempt that starts or ends.
        continue_elsewhere: a run that is stopped with its process stays active, for another process to take over.
    """
    run = await retry.write(runs.claim_run, eval_run_id, runtime_id, time.time())
    if run is None:
        return
    stopwatch = Stopwatch(run.started_at)
    finish = partial(runs.finish_run, run.id, started_at=run.started_at)
    try:
        plan = await prepare_plan(run, agent_source, progress)
        monitor = RunMonitor(run, partial(run_attempt, plan), stopwatch, cancelled, progress)
        ending = await monitor.follow()
        await retry.write(_note_process_facts, run.id)
    except asyncio.CancelledError:
        if continue_elsewhere:
            raise
        end = partial(_release_or_cancel, run, stopwatch.now())
        with contextlib.suppress(TimeoutError):  # the parent process then ends the run
            async with asyncio.timeout(END_WRITE_S):
                await retry.write(end)
        raise
    except BaseException as error:
        await retry.write(partial(finish, EvalRun.Status.FAILED, Failure.of(error), now=stopwatch.now()))
    else:
        await retry.write(partial(finish, ending.status, because=ending.because, now=stopwatch.now()))


def _note_process_facts(run_id: str) -> None:
    packages, environment = process_facts.list_imported_packages(), process_facts.read_environment()
    versions = model_usage.read_model_versions(run_id)
    runs.note_process_facts(run_id, ProcessFacts(packages, environment, versions))


def _release_or_cancel(run: EvalRun, now: float) -> None:
    """End a run whose process is stopped. A run that has started no attempt is left for the next process."""
    if not runs.release_run(run.id, run.started_at):
        because, started_at = runs.STOPPED_WITH_PROCESS, run.started_at
        runs.finish_run(run.id, EvalRun.Status.CANCELLED, because=because, now=now, started_at=started_at)


async def prepare_plan(
    run: EvalRun, agent_source: AgentSource, progress: ProgressCallback | None = None
) -> RunPlan:
    """Load the agent, read the configuration and the cases, and store the facts of the run.

    Raises:
        BadInput: the variant, the configuration, a case, a fixture or the file of rate limits is invalid.
        HasChanged: the run is resumed, and the agent is not the one that ran before.
        Exception: loading the agent failed.
    """
    plan = await load_plan(run, agent_source, progress)
    facts = await collect_facts(agent_source, plan.agent)
    _require_same_agent(run, facts)
    await retry.write(runs.note_facts, run.id, facts)
    await retry.write(store_metrics, evaluators.describe_metrics(), facts.adk_version)
    return plan


async def load_plan(
    run: EvalRun, agent_source: AgentSource, progress: ProgressCallback | None = None
) -> RunPlan:
    """Load the agent, vary it, and read the configuration, the cases and the rate limits of a run.

    Raises:
        BadInput: the variant, the configuration, a case, a fixture or the file of rate limits is invalid.
        Exception: loading the agent failed.
    """
    process_facts.watch_environment()
    agent, app = await load_source(agent_source)
    if variant := read_run_variant(run):
        agent, app = apply_variant(variant, agent, app)
    config = evaluators.read_config(json.loads(run.config))
    folder = agent_source.folder
    plan = RunPlan(
        app_name=agent_source.app_name,
        agent=agent,
        app=app,
        config=config,
        metrics=evaluators.build_metrics(config),
        cases=EvalSet.model_validate_json(run.version.content).eval_cases,
        policy=ReplayPolicy.of(run.policy),
        fixtures=prepare_fixtures(run.version, agent),
        retry_seconds=EvalRunLimits.read(run.limits).retry_seconds,
        rate_limits=find_rate_limits([folder.path, folder.root]),
        waiting=(lambda attempt: progress(attempt, None)) if progress else None,
    )
    warm_up(plan.metrics)
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
                f"The run cannot be resumed: {part} changed from {recorded} to {now} since it started.",
                hint="Start a new run; the results of this one stay.",
            )
