"""Tries of the attempts of one run in this process: their starts, outcomes and interruptions."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from evals_app.execution.attempt import interrupted_outcome
from evals_app.execution.executor import AttemptExecutor
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs import attempt_status
from evals_app.runs.limits import EvalRunLimits
from evals_app.runs.writes import attempts, crashes
from evals_app.runs.writes.outcomes import Outcome
from sessions_app import prices
from sessions_app.delivery.failure import Failure
from sessions_app.store.database import retry
from sessions_app.store.database.stopwatch import Stopwatch

MAX_LOST_TRIES = 5
"""Maximum tries of an attempt during which the store fails: the attempt itself may fill the disk."""

ProgressCallback = Callable[[EvalAttempt, Outcome | None], None]
"""Called with an outcome when an attempt has ended, without one when it starts, waits for a model or continues."""

RunAttempt = Callable[[EvalAttempt], Awaitable[Outcome]]
"""Runs a started attempt and returns its outcome. An exception of the agent becomes the outcome's failure."""


class AttemptTries:
    """Carries out attempts and writes their rows.

    Attributes:
        limits: the limits of the run.
        runtime_id: the process that executes them, if it has a row.
    """

    def __init__(
        self,
        run: EvalRun,
        run_attempt: RunAttempt,
        stopwatch: Stopwatch,
        runtime_id: str | None,
        progress: ProgressCallback | None = None,
        *,
        offered: bool = False,
    ) -> None:
        """Prepare tries of a run. `offered`: start only attempts that are offered (`runs.writes.offers`)."""
        self.limits = EvalRunLimits.read(run.limits)
        self.runtime_id = runtime_id
        self._run_attempt = run_attempt
        self._stopwatch = stopwatch
        self._progress = progress
        self._offered = offered
        self._costs = prices.prices_from_json(json.loads(run.prices))

    async def carry_out(self, attempt_pk: int) -> None:
        """Run a pending attempt to its end. A try during which the store failed is repeated."""
        start = partial(attempts.start_attempt, attempt_pk, runtime_id=self.runtime_id, offered=self._offered)
        while attempt := await retry.write(start, now=self._stopwatch.now()):
            self._report_progress(attempt)
            outcome = await self._run_attempt(attempt)
            failure, lost_tries = outcome.failure, attempt_status.count_store_losses(attempt) + 1
            if failure is None or failure.type != attempt_status.STORE_LOST or lost_tries >= MAX_LOST_TRIES:
                await self.finish(attempt, outcome)
                return
            now = self._stopwatch.now()
            await retry.write(crashes.repeat_attempt, attempt_pk, attempt.started_at, failure, now)

    async def finish(self, attempt: EvalAttempt, outcome: Outcome) -> None:
        """Store the outcome of a try and report it."""
        if outcome.cost is None and outcome.by_model:
            outcome = replace(outcome, cost=self._costs.cost(outcome.by_model, attempt.started_at or 0.0))
        now = self._stopwatch.now()
        if await retry.write(attempts.finish_attempt, attempt.pk, outcome, now, attempt.tries):
            self._report_progress(attempt, outcome)

    async def interrupt_if_due(
        self, attempt: EvalAttempt, executor: AttemptExecutor, now: float, since: float
    ) -> bool:
        """End a try in flight that a person cancels, or that exceeds its time limit; return whether it has to end.

        Args:
            attempt: its row, as it was read just now.
            executor: executes it.
            now: time of the run's stopwatch.
            since: the time limit counts from here at the earliest: the end of the store's last outage.
        """
        status, failure, limit_s = EvalAttempt.Status.CANCELLED, None, self.limits.attempt_seconds
        if attempt.cancel_requested_at is None:
            if (
                limit_s is None
                or attempt.started_at is None
                or now - max(attempt.started_at, since) <= limit_s
            ):
                return False
            status, failure = EvalAttempt.Status.ERROR, self._time_limit_failure(attempt)
        executor.cancel(attempt.pk)
        await self.end_interrupted(attempt, status, failure)
        return True

    async def end_interrupted(
        self, interrupted: EvalAttempt, status: str, failure: Failure | None = None
    ) -> None:
        """Store the end of a try whose task was cancelled. If the attempt was reset meanwhile, nothing changes."""
        attempt = await retry.read(EvalAttempt.objects.select_related("run").get, pk=interrupted.pk)
        if attempt.tries == interrupted.tries:
            outcome = await interrupted_outcome(attempt, EvalAttempt.Status(status), failure)
            await self.finish(attempt, outcome)

    def _report_progress(self, attempt: EvalAttempt, outcome: Outcome | None = None) -> None:
        if self._progress:
            self._progress(attempt, outcome)

    def _time_limit_failure(self, attempt: EvalAttempt) -> Failure:
        """Return the failure of an attempt that exceeds its time limit. It names a model or judge that it waits for."""
        why = f"It did not end within {self.limits.attempt_seconds:g} seconds, the limit of an attempt."
        if attempt.waits_for:
            return Failure(attempt_status.MODEL_UNAVAILABLE, f"{attempt.waits_for}\n{why}")
        if attempt.judged_by:
            note = attempt_status.judging_note(attempt)
            return Failure(attempt_status.JUDGE_TOO_LONG, f"{why} {note}")
        return Failure("AttemptTooLong", why)
