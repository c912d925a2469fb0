"""Control of an active run: requests of people, and limits. Any process may execute its attempts."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs.limits import STEP_S, EvalRunLimits, EvalSpending
from evals_app.runs.spending import spending_since
from evals_app.runs.writes import runs
from sessions_app import prices
from sessions_app.prices import Prices
from sessions_app.store.database import units_of_work
from sessions_app.store.database.stopwatch import Stopwatch
from sessions_app.store.errors import StoreFault

POLL_S = 1.0
"""Seconds between two checks of requests and limits."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunEnding:
    """The final status of a run, and the limit that stopped it."""

    status: str = EvalRun.Status.DONE
    because: str = ""


@dataclass(frozen=True)
class RunSnapshot:
    """The state of a claimed run in the store.

    Attributes:
        stop: the run is cancelled, has ended, or is claimed by another process.
        running: the attempts in flight.
    """

    stop: bool
    parallelism: int
    running: Sequence[EvalAttempt]
    spending: EvalSpending


class RunControl:
    """Decides when a claimed run has to end.

    Attributes:
        limits: the limits of the run.
        store_back_at: when the store returned after its last outage, by the run's stopwatch; 0.0: there was none.
    """

    def __init__(self, run: EvalRun, stopwatch: Stopwatch) -> None:
        self.limits = EvalRunLimits.read(run.limits)
        self.store_back_at = 0.0
        self._run = run
        self._stopwatch = stopwatch
        self._costs = prices.prices_from_json(json.loads(run.prices))
        # The time limit excludes loading the agent, and includes the time of earlier processes that died.
        self._limits_began = stopwatch.now() - run.limits_seconds
        self._step_stored_at = 0.0
        self._is_store_down = False

    def seconds_to_check(self) -> float:
        """Return the seconds until the next check: `POLL_S`, or less if the time limit of the run is reached before."""
        if self.limits.seconds is None:
            return POLL_S
        return min(POLL_S, max(self._limits_began + self.limits.seconds - self._stopwatch.now(), 0.0))

    async def check(self, carry_out: Callable[[RunSnapshot, float], Awaitable[None]]) -> RunEnding | None:
        """Return the run's ending if the run has to stop.

        During an outage of the store nothing can be requested, and the attempts wait for the store, too.

        Args:
            carry_out: applies a snapshot's parallelism and cancellations, at a time of the run's stopwatch.
        """
        try:
            return await self._check_rows(carry_out)
        except StoreFault as fault:
            log.log(
                logging.DEBUG if self._is_store_down else logging.WARNING, "%s The run waits.", fault.message
            )
            self._is_store_down = True
            return None

    async def _check_rows(
        self, carry_out: Callable[[RunSnapshot, float], Awaitable[None]]
    ) -> RunEnding | None:
        snapshot = await units_of_work.read(_read_snapshot, self._run, self.limits, self._costs)
        if self._is_store_down:
            self._is_store_down, self.store_back_at = False, self._stopwatch.now()
        if snapshot.stop:
            return RunEnding(EvalRun.Status.CANCELLED)
        now = self._stopwatch.now()
        await self._store_step(now)
        await carry_out(snapshot, now)
        because = self.limits.describe_reached(now - self._limits_began, snapshot.spending)
        return RunEnding(EvalRun.Status.STOPPED, because) if because else None

    async def _store_step(self, now: float) -> None:
        """Store the time now and then: if the process dies, the run has lasted until the last step."""
        interval = STEP_S if self.limits.seconds is None else POLL_S / 2
        if self._run.started_at is not None and now - self._step_stored_at >= interval:
            self._step_stored_at = now
            await units_of_work.write(runs.note_step, self._run.id, self._run.started_at, now)


_SNAPSHOT_COLUMNS = ("realm", "tries", "started_at", "cancel_requested_at", "waits_for", "judged_by")
"""Columns that are read of attempts in flight."""


def _read_snapshot(claimed: EvalRun, limits: EvalRunLimits, costs: Prices) -> RunSnapshot:
    columns = ("status", "started_at", "cancel_requested_at", "parallelism")
    run = EvalRun.objects.only(*columns).filter(pk=claimed.pk).first()
    is_owned = run is not None and (run.status, run.started_at) == (
        EvalRun.Status.RUNNING,
        claimed.started_at,
    )
    if run is None or not is_owned or run.cancel_requested_at is not None:
        return RunSnapshot(True, 1, (), EvalSpending())
    in_flight = run.attempts.filter(status=EvalAttempt.Status.RUNNING)
    running = list(in_flight.only(*_SNAPSHOT_COLUMNS))
    since = claimed.limits_from or 0.0
    return RunSnapshot(False, run.parallelism, running, spending_since(run, running, since, limits, costs))
