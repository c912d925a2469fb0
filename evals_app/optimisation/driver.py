"""Progress of an optimisation: what its optimiser needs next is done, step by step, until it has ended.

Everything is read from the rows before each step. So a driver can be stopped at any time, and another one goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from evals_app.models import OPTIMISATION, EvalRun, Optimisation, OptimisationStep
from evals_app.optimisation import steps
from evals_app.optimisation.settings import count_nouns
from evals_app.optimisation.spending import (
    describe_reached_limit,
    read_spending,
    remaining_limits,
)
from evals_app.optimisation.steps import NextStep
from evals_app.runs.attempt_status import HAS_OUTCOME, UNFINISHED
from evals_app.runs.limits import EvalRunLimits
from evals_app.runs.variant_orders import list_variant_runs
from sessions_app.store.database import retry
from sessions_app.store.database.change_listener import subscribe
from sessions_app.store.errors import BadInput, DevUIError

Status = Optimisation.Status

log = logging.getLogger(__name__)

CANCEL_POLL_S = 0.2
"""Polling interval on SQLite in seconds for a cancellation while the optimiser's model answers."""

OUT_OF_MODEL_CALLS = "The limit of calls of the optimiser's model was reached."
HIGHER_LIMIT = "devui optimize resumes it with a higher limit: --resume and --limit."


class OptimiserEngine(Protocol):
    """Runs the optimiser and the eval runs of candidates: in this process, or in that of the agent."""

    async def find_next_step(self, optimisation_id: str) -> NextStep:
        """Run the optimiser with the stored results; return what it needs next.

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
        await _end(optimisation_id, Status.FAILED, error.message, error.hint)
    except Exception as error:  # nobody else would end it
        log.exception("Optimisation %s failed.", optimisation_id)
        message = f"DevUI failed with {type(error).__name__}: {error}"
        await _end(optimisation_id, Status.FAILED, message)


async def _advance(optimisation_id: str, engine: OptimiserEngine) -> bool:
    """Do the next step; return whether the optimisation goes on."""
    optimisation = await retry.read(steps.find_optimisation, optimisation_id)
    if not steps.is_own(optimisation):
        return False
    if optimisation.cancel_requested_at is not None:
        return await _end(optimisation.pk, Status.CANCELLED)
    if reason := await retry.read(_find_limit, optimisation):
        return await _end(optimisation.pk, Status.STOPPED, reason, HIGHER_LIMIT)
    open_step = await retry.read(_find_open_step, optimisation)
    if open_step is not None:
        return await _evaluate(optimisation, open_step, engine)
    if optimisation.best_instruction is not None:
        return await _compare(optimisation, engine)
    next_step = await _find_next_step(optimisation, engine)
    return next_step is None or await _begin(optimisation, next_step)


async def _find_next_step(optimisation: Optimisation, engine: OptimiserEngine) -> NextStep | None:
    """Return what the optimiser needs next; None if cancellation was requested before it was known."""
    search = asyncio.ensure_future(engine.find_next_step(optimisation.pk))
    cancellation = asyncio.ensure_future(_wait_for_cancel(optimisation.pk))
    try:
        await asyncio.wait([search, cancellation], return_when=asyncio.FIRST_COMPLETED)
        return await search if search.done() else None
    finally:
        search.cancel()
        cancellation.cancel()
        await asyncio.wait([search, cancellation])


async def _wait_for_cancel(optimisation_id: str) -> None:
    """Return when cancellation of an optimisation was requested, or another process carries it out."""
    async with subscribe(poll_s=CANCEL_POLL_S) as notifications:
        while await retry.read(steps.may_continue, optimisation_id):
            await notifications.wait()


async def _begin(optimisation: Optimisation, step: NextStep) -> bool:
    """Store what the optimiser needs next; return whether the optimisation goes on."""
    limits = await retry.read(_read_remaining_limits, optimisation)
    if step.kind == NextStep.OVER_LIMIT:
        return await _end(optimisation.pk, Status.STOPPED, OUT_OF_MODEL_CALLS)
    if step.kind == NextStep.BEST:
        await retry.write(steps.order_comparison, optimisation, step.instruction, limits)
    elif step.kind == NextStep.EVALUATION:
        if reason := await retry.read(_find_limit, optimisation, step.case_ids):
            return await _end(optimisation.pk, Status.STOPPED, reason)
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
    return await _end(optimisation.pk, Status.DONE)


async def _execute_whole(optimisation: Optimisation, run: EvalRun, engine: OptimiserEngine) -> bool:
    """Execute a run; return whether all its attempts have ended. If it ended early, so does the optimisation."""
    if not await retry.read(_is_complete, run):
        if reason := await retry.read(_find_limit, optimisation):
            return await _end(optimisation.pk, Status.STOPPED, reason, HIGHER_LIMIT)
        limits = await retry.read(_read_remaining_limits, optimisation)
        await retry.write(steps.set_run_limits, run, limits)
        await engine.execute(run)
        run = await retry.read(EvalRun.objects.get, pk=run.pk)
    if await retry.read(_is_complete, run):
        steps.require_same_code(optimisation, run.code_version)
        return True
    if run.status == EvalRun.Status.STOPPED:
        return await _end(optimisation.pk, Status.STOPPED, run.stopped_because, HIGHER_LIMIT)
    if run.status == EvalRun.Status.CANCELLED:
        return await _end(optimisation.pk, Status.CANCELLED)
    if run.status == EvalRun.Status.DONE:
        raise await retry.read(_find_missing_outcome, run)
    raise BadInput(f"Run {run.pk} could not run: {run.error}", hint=run.hint)


def _find_missing_outcome(run: EvalRun) -> BadInput:
    """Return the error that names an attempt without an outcome: it says nothing of its candidate."""
    attempts = run.attempts.exclude(HAS_OUTCOME).order_by("case_index")
    first = attempts[0]
    reason = f": {first.error}" if first.error else ""
    count = count_nouns(attempts.count(), "attempt")
    return BadInput(
        f"{count} of run {run.pk} ended without an outcome, so a candidate has no score. Case {first.case_id!r} is"
        f" {first.get_status_display().lower()}{reason}",
        hint="Resume the optimisation: it tries them again.",
    )


def _is_complete(run: EvalRun) -> bool:
    """Tell whether a run has ended with all its attempts: one that stopped at a limit may have, too.

    To score a candidate, each attempt needs an outcome.
    """
    if run.active:
        return False
    if run.source == OPTIMISATION:
        return not run.attempts.exclude(HAS_OUTCOME).exists()
    return run.status == EvalRun.Status.DONE or not run.attempts.filter(UNFINISHED).exists()


async def _end(optimisation_id: str, status: str, error: str = "", hint: str = "") -> bool:
    """End the optimisation; return False, because it does not go on."""
    await retry.write(steps.end_own_optimisation, optimisation_id, status, error, hint)
    return False


def list_compared_runs(optimisation: Optimisation) -> list[EvalRun]:
    """Return the run of the original on the validation cases and that of the best candidate; none without them."""
    original = optimisation.comparison
    return [original, *list_variant_runs(original)] if original else []


def _find_open_step(optimisation: Optimisation) -> OptimisationStep | None:
    return optimisation.steps.select_related("run__version").filter(finished_at=None).first()


def _find_limit(optimisation: Optimisation, next_cases: Sequence[str] = ()) -> str:
    return describe_reached_limit(optimisation, read_spending(optimisation), next_cases)


def _read_remaining_limits(optimisation: Optimisation) -> EvalRunLimits:
    return remaining_limits(optimisation, read_spending(optimisation))
