"""Progress of an optimisation: what its optimiser needs next is done, step by step, until it has ended.

Everything is read from the rows before each step. So a driver can be stopped at any time, and another one goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from evals_app.models import EvalRun, Optimisation, OptimisationStep
from evals_app.optimisation import steps
from evals_app.optimisation.spending import (
    describe_reached_limit,
    list_run_ids,
    read_spending,
    remaining_limits,
)
from evals_app.optimisation.steps import NextStep
from evals_app.runs.attempt_status import UNFINISHED
from evals_app.runs.limits import EvalRunLimits
from evals_app.runs.variant_orders import list_variant_runs
from sessions_app.store.database import retry
from sessions_app.store.errors import BadInput, DevUIError

Status = Optimisation.Status

log = logging.getLogger(__name__)

MAX_CALLS_REACHED = "The limit of calls of the optimiser's model was reached."
HIGHER_LIMIT = "devui optimize resumes it with a higher limit: --resume and --limit."


class OptimiserEngine(Protocol):
    """Where the optimiser runs, and where runs are executed."""

    async def find_next_step(self, optimisation_id: str) -> NextStep:
        """Replay the optimiser with the stored results; return what it needs next.

        If that is an answer of its model, the model is called, and the answer is stored.

        Raises:
            DevUIError: the model or the optimiser fails.
        """

    async def execute(self, run: EvalRun) -> None:
        """Execute a run, or go on with it, and return when it has ended."""


async def drive_optimisation(optimisation_id: str, engine: OptimiserEngine) -> None:
    """Carry out a running optimisation until it ends, however it ends."""
    try:
        while await _advance(optimisation_id, engine):
            pass
    except DevUIError as error:
        await retry.write(steps.end_optimisation, optimisation_id, Status.FAILED, error.message, error.hint)
    except Exception as error:  # nobody else would end it
        log.exception("Optimisation %s failed.", optimisation_id)
        message = f"DevUI failed with {type(error).__name__}: {error}"
        await retry.write(steps.end_optimisation, optimisation_id, Status.FAILED, message)


async def _advance(optimisation_id: str, engine: OptimiserEngine) -> bool:
    """Do the next step; return whether the optimisation goes on."""
    optimisation = await retry.read(steps.find_optimisation, optimisation_id)
    if not optimisation.active:
        return False
    if optimisation.cancel_requested_at is not None:
        return await _end(optimisation, Status.CANCELLED)
    if reason := await retry.read(_find_limit, optimisation):
        return await _end(optimisation, Status.STOPPED, reason, HIGHER_LIMIT)
    open_step = await retry.read(_find_open_step, optimisation)
    if open_step is not None:
        return await _evaluate(optimisation, open_step, engine)
    if optimisation.best_instruction is not None:
        return await _compare(optimisation, engine)
    return await _begin(optimisation, await engine.find_next_step(optimisation_id))


async def _begin(optimisation: Optimisation, step: NextStep) -> bool:
    """Store what the optimiser needs next; return whether the optimisation goes on."""
    limits = await retry.read(_read_remaining_limits, optimisation)
    if step.kind == NextStep.OVER_LIMIT:
        return await _end(optimisation, Status.STOPPED, MAX_CALLS_REACHED)
    if step.kind == NextStep.BEST:
        await retry.write(steps.order_comparison, optimisation, step.instruction, limits)
    elif step.kind == NextStep.EVALUATION:
        if reason := await retry.read(_find_limit, optimisation, step.case_ids):
            return await _end(optimisation, Status.STOPPED, reason)
        await retry.write(steps.order_evaluation, optimisation, step, limits)
    return True


async def _evaluate(optimisation: Optimisation, step: OptimisationStep, engine: OptimiserEngine) -> bool:
    """Execute the run of a candidate, and store its scores."""
    if step.run is None or await _execute_whole(optimisation, step.run, engine):
        await retry.write(steps.finish_evaluation, step)
        return True
    return False


async def _compare(optimisation: Optimisation, engine: OptimiserEngine) -> bool:
    """Execute the runs of the comparison; the optimisation ends with them."""
    for run in await retry.read(list_compared_runs, optimisation):
        if not await _execute_whole(optimisation, run, engine):
            return False
    return await _end(optimisation, Status.DONE)


async def _execute_whole(optimisation: Optimisation, run: EvalRun, engine: OptimiserEngine) -> bool:
    """Execute a run; return whether all its attempts have ended. If it ended early, so does the optimisation."""
    if not await retry.read(_is_complete, run):
        limits = await retry.read(_read_remaining_limits, optimisation)
        await retry.write(steps.set_run_limits, run, limits)
        await engine.execute(run)
        run = await retry.read(EvalRun.objects.get, pk=run.pk)
    if await retry.read(_is_complete, run):
        steps.require_same_code(optimisation, run.code_version)
        return True
    if run.status == EvalRun.Status.STOPPED:
        return await _end(optimisation, Status.STOPPED, run.stopped_because, HIGHER_LIMIT)
    if run.status == EvalRun.Status.CANCELLED:
        return await _end(optimisation, Status.CANCELLED)
    raise BadInput(f"Run {run.pk} could not run: {run.error}", hint=run.hint)


def _is_complete(run: EvalRun) -> bool:
    """Tell whether a run has ended with all its attempts: one that stopped at a limit may have, too."""
    if run.active:
        return False
    return run.status == EvalRun.Status.DONE or not run.attempts.filter(UNFINISHED).exists()


async def _end(optimisation: Optimisation, status: str, error: str = "", hint: str = "") -> bool:
    """End the optimisation; return False, because it does not go on."""
    await retry.write(steps.end_optimisation, optimisation.pk, status, error, hint)
    return False


def list_compared_runs(optimisation: Optimisation) -> list[EvalRun]:
    """Return the run of the original on the validation cases and that of the best candidate; none without them."""
    original = optimisation.comparison
    return [original, *list_variant_runs(original)] if original else []


def list_active_runs(optimisation: Optimisation) -> list[EvalRun]:
    """Return the runs of an optimisation that have not ended."""
    rows = EvalRun.objects.select_related("evalset", "version").filter(status__in=EvalRun.ACTIVE)
    return list(rows.filter(pk__in=list_run_ids(steps.find_optimisation(optimisation.pk))))


def _find_open_step(optimisation: Optimisation) -> OptimisationStep | None:
    return optimisation.steps.select_related("run__version").filter(finished_at=None).first()


def _find_limit(optimisation: Optimisation, next_cases: Sequence[str] = ()) -> str:
    return describe_reached_limit(optimisation, read_spending(optimisation), next_cases)


def _read_remaining_limits(optimisation: Optimisation) -> EvalRunLimits:
    return remaining_limits(optimisation, read_spending(optimisation))
