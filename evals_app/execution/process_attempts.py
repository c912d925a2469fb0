"""Attempts that a runtime executes for runs that a worker coordinates (`devui.workers.coordinator`)."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from evals_app.execution.agent_source import AgentSource
from evals_app.execution.attempt import run_attempt
from evals_app.execution.attempt_tries import AttemptTries
from evals_app.execution.executor import AttemptExecutor
from evals_app.execution.run_execution import load_plan, prepare_plan
from evals_app.execution.watchdog import Watchdog
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs.attempt_status import must_run_alone
from evals_app.runs.writes import offers, runs
from evals_app.runs.writes.outcomes import Outcome
from sessions_app.delivery.failure import Failure
from sessions_app.runs.agent_exit import AgentExited
from sessions_app.runs.job_queue import QUEUE_ID
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.database.stopwatch import Stopwatch
from sessions_app.store.errors import StoreFault

POLL_S = 0.5
"""Seconds between two checks whether a person has cancelled an attempt, or another process has taken it."""

MAX_CONTEXTS = 16
"""Maximum runs whose contexts are retained."""

Status = EvalAttempt.Status

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunContext:
    """A run and the objects that its attempts share in this process.

    Attributes:
        tries: starts and ends them, by the plan of the run.
        stopwatch: the run's, which does not begin before the last step of the run in the store.
    """

    run: EvalRun
    tries: AttemptTries
    stopwatch: Stopwatch


class ProcessAttempts:
    """Executes the offered attempts of one app, of any run.

    Attempts are known by their primary keys: `_ends` has those that wait or run here, `_delivered` those whose run has
    been loaded, `_tries` the tries of those that have started.
    """

    def __init__(self, source: AgentSource, runtime_id: str) -> None:
        self._source = source
        self._runtime_id = runtime_id
        self._contexts: dict[tuple[str, float | None], asyncio.Task[RunContext]] = {}
        self._executor = AttemptExecutor(self._carry_out, sys.maxsize)
        self._delivered: dict[int, RunContext] = {}
        self._ends: dict[int, asyncio.Event] = {}
        self._tries: dict[int, int] = {}
        self._watching: asyncio.Task[None] | None = None
        self._store_back_at = 0.0

    def __len__(self) -> int:
        """Return the number of attempts that wait or run here."""
        return len(self._ends)

    async def prepare(self, run_id: str) -> None:
        """Load the plan of a claimed run and store the run's facts. If that fails, the run ends with the reason."""
        run = await retry.read(_active_run, run_id)
        if run is None:
            return
        try:
            await prepare_plan(run, self._source)
        except (Exception, SystemExit) as error:
            finish = partial(runs.finish_run, run.id, started_at=run.started_at)
            await retry.write(partial(finish, EvalRun.Status.FAILED, Failure.of(error)))

    async def execute(self, attempt_pk: int) -> None:
        """Execute an offered attempt. Return when it has ended, or another process has taken it.

        Raises:
            Exception: the agent cannot be loaded. The attempt remains offered.
        """
        if attempt_pk in self._ends:
            await self._ends[attempt_pk].wait()
            return
        end = self._ends[attempt_pk] = asyncio.Event()
        try:
            attempt = await retry.read(offers.find_offered_attempt, attempt_pk)
            if attempt is None:
                return
            self._delivered[attempt_pk] = await self._get_context(attempt.run)
            if self._watching is None or self._watching.done():
                self._watching = asyncio.create_task(self._watch_rows())
            self._executor.enqueue(attempt_pk, alone=must_run_alone(attempt))
            await end.wait()
        finally:
            end.set()
            del self._ends[attempt_pk]
            self._delivered.pop(attempt_pk, None)
            self._tries.pop(attempt_pk, None)

    async def stop(self) -> None:
        """Stop all attempts. Their rows stay as they are, so that other processes repeat them."""
        if self._watching is not None:
            self._watching.cancel()
        await self._executor.stop()

    async def _get_context(self, run: EvalRun) -> RunContext:
        """Return the context of a claimed run, loaded once per claim."""
        key = run.pk, run.started_at
        if key not in self._contexts:
            while len(self._contexts) >= MAX_CONTEXTS:
                del self._contexts[next(iter(self._contexts))]
            self._contexts[key] = asyncio.create_task(self._load_context(run))
        loading = self._contexts[key]
        try:
            return await asyncio.shield(loading)
        except BaseException:
            if loading.done() and self._contexts.get(key) is loading:
                del self._contexts[key]
            raise

    async def _load_context(self, run: EvalRun) -> RunContext:
        try:
            plan = await load_plan(run, self._source)
        except SystemExit as error:
            raise AgentExited.of(error, "agent's module") from error
        stopwatch = Stopwatch(max(await retry.read(runs.last_step, run.pk), time.time()))
        tries = AttemptTries(
            run, partial(run_attempt, plan), stopwatch, self._runtime_id, self._note_start, offered=True
        )
        return RunContext(run, tries, stopwatch)

    def _note_start(self, attempt: EvalAttempt, outcome: Outcome | None) -> None:
        if outcome is None:
            self._tries[attempt.pk] = attempt.tries

    async def _carry_out(self, attempt_pk: int) -> None:
        context, end = self._delivered[attempt_pk], self._ends[attempt_pk]
        try:
            limit_s = context.tries.limits.attempt_seconds
            async with Watchdog(context.run.pk, self._runtime_id, limit_s, context.stopwatch):
                await context.tries.carry_out(attempt_pk)
        except Exception as error:
            log.exception("Attempt %d could not be carried out.", attempt_pk)
            if tries := self._tries.get(attempt_pk):
                attempt = EvalAttempt(pk=attempt_pk, tries=tries)
                await context.tries.end_interrupted(attempt, Status.ERROR, Failure.of(error))
        finally:
            end.set()

    def _release_attempt(self, attempt_pk: int) -> None:
        """Stop the execution of an attempt. An agent that ignores its cancellation is left behind."""
        self._executor.cancel(attempt_pk)
        self._ends[attempt_pk].set()

    async def _watch_rows(self) -> None:
        """Stop attempts that a person cancels, that exceed their time limit, or that another process has taken."""
        is_store_down = False
        while self._delivered:
            await asyncio.sleep(POLL_S)
            delivered = list(self._delivered)
            try:
                rows = await units_of_work.read(_read_attempts, delivered)
            except StoreFault:
                is_store_down = True
                continue
            if is_store_down:
                is_store_down, self._store_back_at = False, time.monotonic()
            for attempt_pk in delivered:
                if attempt_pk in self._delivered:
                    await self._check_attempt(attempt_pk, rows.get(attempt_pk))

    async def _check_attempt(self, attempt_pk: int, row: EvalAttempt | None) -> None:
        context = self._delivered[attempt_pk]
        if row is None or not self._is_own(row):
            self._release_attempt(attempt_pk)
            return
        now = context.stopwatch.now()
        since = now - (time.monotonic() - self._store_back_at) if self._store_back_at else 0.0
        is_running = row.status == Status.RUNNING
        if is_running and await context.tries.interrupt_if_due(row, self._executor, now, since):
            self._release_attempt(attempt_pk)

    def _is_own(self, row: EvalAttempt) -> bool:
        """Tell whether an attempt is still offered, or running the try that this process started."""
        if row.status == Status.PENDING:
            return row.runtime_id == QUEUE_ID
        own_try = self._runtime_id, self._tries.get(row.pk, row.tries)
        return row.status == Status.RUNNING and (row.runtime_id, row.tries) == own_try


_CHECKED_COLUMNS = (
    "status",
    "runtime_id",
    "tries",
    "started_at",
    "cancel_requested_at",
    "waits_for",
    "judged_by",
)


def _read_attempts(attempt_pks: Collection[int]) -> dict[int, EvalAttempt]:
    return EvalAttempt.objects.only(*_CHECKED_COLUMNS).in_bulk(list(attempt_pks))


def _active_run(run_id: str) -> EvalRun | None:
    active = EvalRun.objects.filter(pk=run_id, status=EvalRun.Status.RUNNING)
    return active.select_related("version", "evalset").first()
