"""The monitor of an active run: executes its attempts, checks requests and limits, decides when to stop."""

from __future__ import annotations

import asyncio
from typing import Any

from evals_app.execution.attempt import OUTBOX_WAIT_S
from evals_app.execution.attempt_tries import AttemptTries, ProgressCallback, RunAttempt
from evals_app.execution.executor import AttemptExecutor
from evals_app.execution.watchdog import Watchdog
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs import attempt_status
from evals_app.runs.run_control import RunControl, RunEnding, RunSnapshot
from evals_app.runs.writes.outcomes import Outcome
from sessions_app.store.database import retry
from sessions_app.store.database.stopwatch import Stopwatch
from sessions_app.store.traces.outbox import outbox

Status = EvalAttempt.Status


class RunMonitor:
    """Executes the pending attempts of a claimed run, and ends the run at its limits or when a person requests it."""

    def __init__(
        self,
        run: EvalRun,
        run_attempt: RunAttempt,
        stopwatch: Stopwatch,
        cancelled: asyncio.Event,
        progress: ProgressCallback | None = None,
    ) -> None:
        self._run = run
        self._stopwatch = stopwatch
        self._cancelled = cancelled
        self._progress = progress
        self._control = RunControl(run, stopwatch)
        self._tries = AttemptTries(run, run_attempt, stopwatch, run.runtime_id, self._note_progress)
        self._executor = AttemptExecutor(self._tries.carry_out, run.parallelism)
        self._attempt_ended = asyncio.Event()

    async def follow(self) -> RunEnding:
        """Carry out all pending attempts and return how the run ends.

        Raises:
            Exception: an attempt could not be carried out, for example because the store is gone.
        """
        limit_s = self._control.limits.attempt_seconds
        async with Watchdog(self._run.id, self._run.runtime_id, limit_s, self._stopwatch):
            for attempt_pk, alone in await retry.read(_pending_attempts, self._run.id):
                self._executor.enqueue(attempt_pk, alone=alone)
            executing = asyncio.ensure_future(self._executor.join())
            cancelling = asyncio.ensure_future(self._cancelled.wait())
            try:
                while not executing.done():
                    await self._wait_for_change(executing, cancelling)
                    if not executing.done() and (ending := await self._check_requests_and_limits()):
                        return ending
                executing.result()
                return RunEnding()
            finally:
                executing.cancel()
                cancelling.cancel()
                await self._executor.stop()
                await outbox().wait_written(OUTBOX_WAIT_S)  # model calls of interrupted attempts
                await asyncio.gather(executing, cancelling, return_exceptions=True)

    def _note_progress(self, attempt: EvalAttempt, outcome: Outcome | None) -> None:
        """Report progress, and check the limits that an ended attempt may have reached."""
        if self._progress:
            self._progress(attempt, outcome)
        limits = self._control.limits
        if outcome is not None and (limits.has_tokens or limits.has_cost):
            self._attempt_ended.set()

    async def _wait_for_change(self, *events: asyncio.Future[Any]) -> None:
        """Return when an event occurs, when the run's time is over, or after `run_control.POLL_S`."""
        attempt_ended = asyncio.ensure_future(self._attempt_ended.wait())
        timeout = self._control.seconds_to_check()
        await asyncio.wait({attempt_ended, *events}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        attempt_ended.cancel()
        self._attempt_ended.clear()

    async def _check_requests_and_limits(self) -> RunEnding | None:
        """Carry out requests of people and enforce limits. Return the run's ending if the run has to stop."""
        if self._cancelled.is_set():
            return RunEnding(EvalRun.Status.CANCELLED)
        return await self._control.check(self._follow_requests)

    async def _follow_requests(self, snapshot: RunSnapshot, now: float) -> None:
        """Set the parallelism, and end attempts that are cancelled or exceed their time limit."""
        self._executor.resize(snapshot.parallelism)
        for attempt in snapshot.running:
            await self._tries.interrupt_if_due(attempt, self._executor, now, self._control.store_back_at)


def _pending_attempts(run_id: str) -> list[tuple[int, bool]]:
    """Return the pending attempts in their order, each with whether it must run alone in its process."""
    rows = EvalAttempt.objects.filter(run_id=run_id, status=Status.PENDING).only("earlier")
    ordered = rows.order_by(*attempt_status.EXECUTION_ORDER)
    return [(attempt.pk, attempt_status.must_run_alone(attempt)) for attempt in ordered]
