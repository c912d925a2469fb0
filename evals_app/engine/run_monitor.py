"""The monitor of an active run: executes its attempts, checks requests and limits, decides when to stop."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from evals_app.engine.attempt import OUTBOX_WAIT_S, interrupted_outcome
from evals_app.engine.executor import AttemptExecutor
from evals_app.engine.spending import spending_since
from evals_app.engine.watchdog import Watchdog
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs import attempt_status
from evals_app.runs.limits import STEP_S, Limits, Spending
from evals_app.runs.writes import attempts, crashes, runs
from evals_app.runs.writes.outcomes import Failure, Outcome
from sessions_app import prices
from sessions_app.errors import StoreFault
from sessions_app.prices import Prices
from sessions_app.store import retry, units_of_work
from sessions_app.store.stopwatch import Stopwatch
from sessions_app.traces.outbox import outbox

POLL_S = 1.0
"""Seconds between two checks of requests and limits."""

MAX_LOST_TRIES = 5
"""Maximum tries of an attempt during which the store fails: the attempt itself may be what fills the disk."""

log = logging.getLogger(__name__)

Status = EvalAttempt.Status

ProgressCallback = Callable[[EvalAttempt, Outcome | None], None]
"""Called with an outcome when an attempt has ended, without one when it starts, waits for a model or continues."""

RunAttempt = Callable[[EvalAttempt], Awaitable[Outcome]]
"""Runs a started attempt and returns its outcome. An exception of the agent becomes the outcome's failure."""


@dataclass(frozen=True)
class RunEnding:
    """The final status of a run, and the limit that stopped it."""

    status: str = EvalRun.Status.DONE
    because: str = ""


@dataclass(frozen=True)
class RunSnapshot:
    """The state of an active run in the store. `running`: the attempts in flight."""

    stop: bool
    parallelism: int
    running: Sequence[EvalAttempt]
    spending: Spending


class RunMonitor:
    """Executes the pending attempts of a claimed run, and ends the run at its limits or when a person requests it."""

    def __init__(
        self,
        run: EvalRun,
        run_attempt: RunAttempt,
        watch: Stopwatch,
        cancelled: asyncio.Event,
        progress: ProgressCallback | None = None,
    ) -> None:
        self._run = run
        self._run_attempt = run_attempt
        self._watch = watch
        self._cancelled = cancelled
        self._progress = progress
        self._executor = AttemptExecutor(self._carry_out, run.parallelism)
        self._limits = Limits.read(run.limits)
        self._costs = prices.prices_from_json(json.loads(run.prices))
        # The time limit excludes loading the agent, and includes the time of earlier processes that died.
        self._limits_began = watch.now() - run.limits_seconds
        self._step_stored_at = 0.0
        self._attempt_ended = asyncio.Event()
        self._is_store_down = False
        self._store_back_at = 0.0

    async def follow(self) -> RunEnding:
        """Carry out all pending attempts and return how the run ends.

        Raises:
            Exception: an attempt could not be carried out, for example because the store is gone.
        """
        async with Watchdog(self._run.id, self._limits.attempt_seconds, self._watch):
            for attempt_pk, alone in await retry.read(_pending_attempts, self._run.id):
                self._executor.enqueue(attempt_pk, alone=alone)
            executing = asyncio.ensure_future(self._executor.join())
            cancelling = asyncio.ensure_future(self._cancelled.wait())
            try:
                while not executing.done():
                    await self._wait(executing, cancelling)
                    if (
                        not executing.done()
                        and (ending := await self._check_requests_and_limits()) is not None
                    ):
                        return ending
                executing.result()
                return RunEnding()
            finally:
                executing.cancel()
                cancelling.cancel()
                await self._executor.stop()
                await outbox().wait_written(OUTBOX_WAIT_S)  # model calls of interrupted attempts
                await asyncio.gather(executing, cancelling, return_exceptions=True)

    async def _carry_out(self, attempt_pk: int) -> None:
        """Run a pending attempt to its end. A try during which the store failed is repeated."""
        start = partial(attempts.start_attempt, attempt_pk, runtime_id=self._run.runtime_id)
        while attempt := await retry.write(start, now=self._watch.now()):
            self._report_progress(attempt)
            outcome = await self._run_attempt(attempt)
            failure, lost_tries = outcome.failure, attempt_status.count_store_losses(attempt) + 1
            if failure is None or failure.type != attempt_status.STORE_LOST or lost_tries >= MAX_LOST_TRIES:
                await self._finish(attempt, outcome)
                return
            now = self._watch.now()
            await retry.write(crashes.repeat_attempt, attempt_pk, attempt.started_at, failure, now)

    async def _finish(self, attempt: EvalAttempt, outcome: Outcome) -> None:
        """Store the outcome of an attempt and report it."""
        if outcome.cost is None and outcome.by_model:
            outcome = replace(outcome, cost=self._costs.cost(outcome.by_model, attempt.started_at or 0.0))
        now = self._watch.now()
        if await retry.write(attempts.finish_attempt, attempt.pk, outcome, now, attempt.tries):
            self._report_progress(attempt, outcome)
        if self._limits.tokens is not None or self._limits.cost is not None:
            self._attempt_ended.set()

    async def _interrupt(self, attempt_pk: int, status: Status, failure: Failure | None = None) -> None:
        """Stop an attempt in flight and end it with this status."""
        self._executor.cancel(attempt_pk)
        attempt = await retry.read(EvalAttempt.objects.select_related("run").get, pk=attempt_pk)
        await self._finish(attempt, await interrupted_outcome(attempt, status, failure))

    def _report_progress(self, attempt: EvalAttempt, outcome: Outcome | None = None) -> None:
        if self._progress:
            self._progress(attempt, outcome)

    async def _wait(self, *events: asyncio.Future[Any]) -> None:
        """Return when an event occurs, when the run's time is over, or after `POLL_S`."""
        attempt_ended = asyncio.ensure_future(self._attempt_ended.wait())
        timeout = POLL_S
        if self._limits.seconds is not None:
            timeout = min(timeout, max(self._limits_began + self._limits.seconds - self._watch.now(), 0.0))
        await asyncio.wait({attempt_ended, *events}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        attempt_ended.cancel()
        self._attempt_ended.clear()

    async def _check_requests_and_limits(self) -> RunEnding | None:
        """Carry out what people request, and enforce limits. Return the run's ending if the run has to stop.

        During an outage of the store nothing can be requested, and the attempts wait for the store, too.
        """
        if self._cancelled.is_set():
            return RunEnding(EvalRun.Status.CANCELLED)
        try:
            return await self._check_rows()
        except StoreFault as fault:
            log.log(
                logging.DEBUG if self._is_store_down else logging.WARNING, "%s The run waits.", fault.message
            )
            self._is_store_down = True
            return None

    async def _check_rows(self) -> RunEnding | None:
        snapshot = await units_of_work.read(_read_snapshot, self._run, self._limits, self._costs)
        if self._is_store_down:
            self._is_store_down, self._store_back_at = False, self._watch.now()
        if snapshot.stop:
            return RunEnding(EvalRun.Status.CANCELLED)
        self._executor.resize(snapshot.parallelism)
        now = self._watch.now()
        await self._store_step(now)
        for attempt in snapshot.running:
            if attempt.cancel_requested_at is not None:
                await self._interrupt(attempt.pk, Status.CANCELLED)
            elif self._exceeds_time_limit(attempt, now):
                await self._interrupt(attempt.pk, Status.ERROR, self._time_limit_failure(attempt))
        because = self._limits.describe_reached(now - self._limits_began, snapshot.spending)
        return RunEnding(EvalRun.Status.STOPPED, because) if because else None

    async def _store_step(self, now: float) -> None:
        """Store the time, so that a run whose process dies has lasted until then."""
        interval = STEP_S if self._limits.seconds is None else POLL_S / 2
        if self._run.started_at is not None and now - self._step_stored_at >= interval:
            self._step_stored_at = now
            await units_of_work.write(runs.note_step, self._run.id, self._run.started_at, now)

    def _exceeds_time_limit(self, attempt: EvalAttempt, now: float) -> bool:
        """Tell whether an attempt exceeds its time limit, which starts again after an outage of the store."""
        limit_s = self._limits.attempt_seconds
        if limit_s is None or attempt.started_at is None:
            return False
        return now - max(attempt.started_at, self._store_back_at) > limit_s

    def _time_limit_failure(self, attempt: EvalAttempt) -> Failure:
        """Return the failure of an attempt that exceeds its time limit. It names a model or judge that it waits for."""
        why = f"It did not end within {self._limits.attempt_seconds:g} seconds, the limit of an attempt."
        if attempt.waits_for:
            return Failure(attempt_status.MODEL_UNAVAILABLE, f"{attempt.waits_for}\n{why}")
        if attempt.judged_by:
            note = attempt_status.judging_note(attempt)
            return Failure(attempt_status.JUDGE_TOO_LONG, f"{why} {note}")
        return Failure("AttemptTooLong", why)


_SNAPSHOT_COLUMNS = ("realm", "started_at", "cancel_requested_at", "waits_for", "judged_by")
"""Columns that are read of attempts in flight."""


def _pending_attempts(run_id: str) -> list[tuple[int, bool]]:
    """Return the pending attempts in file order, each with whether it must run alone in its process.

    Attempts that were tried before come last, so that a case whose agent ends its process delays no other.
    """
    rows = EvalAttempt.objects.filter(run_id=run_id, status=Status.PENDING).only("earlier")
    ordered = rows.order_by("tries", "case_index", "repetition")
    return [(attempt.pk, attempt_status.must_run_alone(attempt)) for attempt in ordered]


def _read_snapshot(claimed: EvalRun, limits: Limits, costs: Prices) -> RunSnapshot:
    columns = ("status", "started_at", "cancel_requested_at", "parallelism")
    run = EvalRun.objects.only(*columns).filter(pk=claimed.pk).first()
    is_owned = run is not None and (run.status, run.started_at) == (
        EvalRun.Status.RUNNING,
        claimed.started_at,
    )
    if run is None or not is_owned or run.cancel_requested_at is not None:
        return RunSnapshot(True, 1, (), Spending())
    in_flight = run.attempts.filter(status=Status.RUNNING)
    running = list(in_flight.only(*_SNAPSHOT_COLUMNS))
    since = claimed.limits_from or 0.0
    return RunSnapshot(False, run.parallelism, running, spending_since(run, running, since, limits, costs))
