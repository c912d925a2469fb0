"""Procrastinate in a worker: takes the jobs of its apps, and retries those of workers that are gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, cast

from procrastinate import App, RetryStrategy
from procrastinate.exceptions import ConnectorException
from procrastinate.job_context import JobContext
from procrastinate.jobs import DeleteJobCondition, Job, Status
from procrastinate.worker import Worker as JobWorker

from devui.supervisor import http_calls
from devui.supervisor.runtime_process import RuntimeChild
from devui.workers import imports, redelivery
from devui.workers.coordinator import RunCoordinator
from devui.workers.queues import (
    ATTEMPT_TASK,
    CONVERSATIONS,
    EVAL_RUN_TASK,
    EVALS,
    IMPORT_TASK,
    RUN_TASK,
    attempt_queue,
    list_queues,
)
from devui.workers.run_watch import WorkerRunWatch
from devui.workers.store_connector import StoreConnector, new_pool
from devui.workers.supervisor import WorkerSupervisor
from evals_app.runs.writes import offers, runs
from sessions_app.agent_processes import processes
from sessions_app.delivery.deliveries import deliveries
from sessions_app.delivery.failure import Failure
from sessions_app.runs.background import BackgroundTasks
from sessions_app.runs.run_delivery import RunDelivery
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.database.stopwatch import ChangeTimer
from sessions_app.store.errors import DevUIError, RuntimeUnavailable, ServerStopping, StoreFault
from sessions_app.store.models import Run

POLL_S = 0.5
"""Seconds between two checks for jobs, should a notification be lost or a queue be new."""

RETRY_S = 5
"""Seconds until a job that raised an unexpected error is tried again."""

LOST_S = 5.0
"""Seconds after which a job that the store assigns to this worker, and it does not execute, counts as lost."""

FORGET_S = 24 * 3600
"""Seconds of silence after which Procrastinate forgets a worker. A worker that it has forgotten can take no jobs, and
`retry_abandoned_jobs` does not wait for that.
"""

REDELIVERY_S = 2
"""Seconds until an attempt is delivered again whose process ended before it began."""

MAX_DELIVERIES = 5
"""Deliveries of an attempt that may fail because no process can load its agent; then the attempt ends."""

ADK_VERSION = version("google-adk")

JobWork = Coroutine[Any, Any, None]

log = logging.getLogger(__name__)


class Undelivered(Exception):
    """The run of a job did not begin, or did not end, for a reason outside of the run. The job is tried again."""


class Engine:
    """The jobs of one worker. `take` sets what it takes; `drain` takes no new runs and waits for the current ones.

    Conversation runs and attempts share its slots. The eval runs that it coordinates occupy none, so that they never
    wait for each other's attempts; there are at most as many as slots.
    """

    def __init__(self, supervisor: WorkerSupervisor, watch: WorkerRunWatch, concurrency: int) -> None:
        self._supervisor = supervisor
        self._watch = watch
        self._concurrency = concurrency
        self._apps: dict[str, str] = {}
        self._kinds: tuple[str, ...] = ()
        self._queues: list[str] = []
        self._coordinators: set[RunCoordinator] = set()
        self._coordinating = BackgroundTasks()
        self._jobs = BackgroundTasks()
        self._is_closing = False
        self._job_ids: set[int | None] = set()
        self._idle_timer = ChangeTimer()
        self._is_draining = False
        self._app = App(connector=StoreConnector())
        self._add_task(RUN_TASK, self._carry_out_run)
        self._add_task(EVAL_RUN_TASK, self._coordinate_eval_run)
        self._add_task(IMPORT_TASK, self._carry_out_import)
        self._add_task(ATTEMPT_TASK, self._carry_out_attempt, REDELIVERY_S)
        self._worker = self._new_worker()

    def _add_task(self, name: str, carry_out: Callable[..., JobWork], retry_s: int = RETRY_S) -> None:
        """Define what jobs with this name do. A job that fails, or that `close` interrupts, is tried again."""

        async def carry_out_until_closed(context: JobContext, /, **arguments: Any) -> None:
            if self._is_closing:
                raise Undelivered("This worker ends.")
            job = context.job
            self._job_ids.add(job.id)
            try:
                await self._jobs.start(carry_out(job, **arguments))
            except asyncio.CancelledError as error:
                raise Undelivered("This worker ends.") from error
            finally:
                self._job_ids.discard(job.id)

        self._app.task(name=name, retry=RetryStrategy(wait=retry_s), pass_context=True)(
            carry_out_until_closed
        )

    @property
    def id(self) -> int | None:
        """Id of this worker in Procrastinate's table; None while it has none."""
        engine_id: int | None = self._worker.worker_id
        return engine_id

    def take(self, apps: Mapping[str, str], kinds: Iterable[str]) -> None:
        """Take jobs for these apps (name → code version) from now on."""
        self._apps, self._kinds = dict(apps), tuple(kinds)
        self._update_queues()

    def has_code(self, app_name: str, code_version: str) -> bool:
        """Tell whether this worker can execute attempts with this code: its files have it, or a process does."""
        return (app_name, code_version) in self._available_codes()

    def _available_codes(self) -> set[tuple[str, str]]:
        return {*self._apps.items(), *self._supervisor.code_versions()}

    def _update_queues(self) -> None:
        """Set the queues: those of runs while it takes more of them, and those of attempts."""
        run_kinds = set(self._kinds) if not self._is_draining else set()
        codes = self._available_codes() if EVALS in self._kinds else set()
        if self._is_draining:
            codes &= {
                (coordinator.run.app_name, coordinator.run.code_version) for coordinator in self._coordinators
            }
        if len(self._coordinators) >= self._concurrency:
            run_kinds &= {CONVERSATIONS}
        of_attempts = [attempt_queue(app_name, code, ADK_VERSION) for app_name, code in sorted(codes)]
        self._queues[:] = [*list_queues(self._apps, sorted(run_kinds)), *of_attempts]

    async def run(self) -> None:
        """Take jobs until drained."""
        async with new_pool() as pool, self._app.open_async(pool):
            while not self._has_drained:
                try:
                    await cast(Any, self._worker).run()
                except Exception:
                    log.exception("The engine stopped; it starts again in %d s.", RETRY_S)
                if not self._has_drained:
                    await asyncio.sleep(RETRY_S)
                    self._worker = self._new_worker()

    def drain(self) -> None:
        """Take no more runs; `run` returns when the last one has ended."""
        self._is_draining = True
        self._update_queues()
        self._stop_if_drained()

    async def close(self) -> None:
        """Leave the jobs that it carries out, and the eval runs that it coordinates, to other workers."""
        self._is_closing = self._is_draining = True
        cast(Any, self._worker).stop()
        await self._coordinating.cancel()
        await self._jobs.cancel()

    @property
    def _has_drained(self) -> bool:
        return self._is_draining and not self._coordinators

    def _stop_if_drained(self) -> None:
        if self._has_drained:
            cast(Any, self._worker).stop()

    async def retry_abandoned_jobs(self) -> None:
        """Queue again the jobs of gone workers, and those of this worker that it never received.

        A draining worker leaves that to others.
        """
        if self._is_draining:
            return
        jobs = self._app.job_manager
        for engine_id in await units_of_work.read(redelivery.list_gone_engine_ids):
            for job in await self._list_jobs(engine_id):
                await self._retry_job(job.id)
        own_jobs = await self._list_jobs(self.id) if self.id is not None else []
        idle_jobs = {str(job.id): job for job in own_jobs if job.id not in self._job_ids}
        for name in self._idle_timer.find_unchanged(idle_jobs, LOST_S):
            await self._retry_job(idle_jobs[name].id)
        for job in await jobs.get_stalled_jobs(seconds_since_heartbeat=processes.SILENCE_S):
            await self._retry_job(job.id)

    async def _list_jobs(self, engine_id: int) -> Iterable[Job]:
        """Return the jobs that were delivered to a worker and have not ended."""
        jobs: Iterable[Job] = await self._app.job_manager.list_jobs_async(
            status=Status.DOING.value, worker_id=engine_id
        )
        return jobs

    async def _retry_job(self, job_id: int | None) -> None:
        if job_id is None:
            return
        try:
            await self._app.job_manager.retry_job_by_id_async(job_id, datetime.now(UTC))
        except ConnectorException as error:  # another worker was faster
            log.info("Job %d is not retried here: %s", job_id, error)

    def _new_worker(self) -> JobWorker:
        return JobWorker(
            self._app,
            queues=self._queues,
            name="devui",
            concurrency=self._concurrency,
            fetch_job_polling_interval=POLL_S,
            delete_jobs=DeleteJobCondition.SUCCESSFUL,
            install_signal_handlers=False,
            update_heartbeat_interval=processes.HEARTBEAT_S,
            stalled_worker_timeout=FORGET_S,
        )

    async def _carry_out_run(self, job: Job, run_id: str) -> None:
        """Deliver a queued run to its process here, and wait for its end."""
        run = await units_of_work.read(
            Run.objects.select_related("session").filter(pk=run_id, status=Run.Status.QUEUED).first
        )
        if run is None:
            return
        try:
            await deliveries.deliver(RunDelivery(run.session.app_name, run_id, self._supervisor))
        except ServerStopping:
            return
        except DevUIError as error:
            log.warning("Run %s failed: %s", run_id, error.message)
        await self._watch.wait_until_gone(run_id)

    async def _carry_out_import(self, job: Job, location: str, app_name: str) -> None:
        """Import what `adk web` stored in the folder of an agent here."""
        if self._supervisor.folder is not None:
            await imports.carry_out(location, app_name, self._supervisor.folder)

    async def _coordinate_eval_run(self, job: Job, run_id: str) -> None:
        """Claim a pending eval run and coordinate it in the background: its row is the truth from now on."""
        run = await units_of_work.write(runs.claim_run, run_id, self._supervisor.id)
        if run is None:
            return
        coordinator = RunCoordinator(run, self._supervisor, self.has_code)
        self._coordinators.add(coordinator)
        self._update_queues()
        self._coordinating.start(self._follow_coordinator(coordinator))

    async def _follow_coordinator(self, coordinator: RunCoordinator) -> None:
        try:
            await coordinator.carry_out()
        finally:
            self._coordinators.remove(coordinator)
            self._update_queues()
            self._stop_if_drained()

    async def _carry_out_attempt(self, job: Job, attempt_pk: int) -> None:
        """Let a process here execute an offered attempt, and wait for its end.

        Raises:
            Undelivered: this worker has other code now, or the process ended.
            DevUIError: no process could load the agent, or the store failed.
        """
        attempt = await units_of_work.read(offers.find_offered_attempt, attempt_pk)
        if attempt is None:
            return
        try:
            child = await self._supervisor.child_with_code(attempt.run.app_name, attempt.run.code_version)
            if child is None:
                raise Undelivered(f"App {attempt.run.app_name!r} has other code now.")
            await self._execute_attempt(child, attempt_pk)
        except StoreFault:
            raise
        except DevUIError as error:
            if job.attempts + 1 < MAX_DELIVERIES:
                raise
            await retry.write(offers.fail_offered_attempt, attempt_pk, Failure.of(error).text)

    async def _execute_attempt(self, child: RuntimeChild, attempt_pk: int) -> None:
        """Execute an attempt in a process, which is ended if its agent does not react to a cancellation.

        Raises:
            Undelivered: the process ended after it had loaded the agent.
            DevUIError: the process could not load the agent.
        """
        call = http_calls.call(child, "POST", "/devui/evals/attempts", {"attempt_pk": attempt_pk})
        executing = asyncio.ensure_future(call)
        cancelling = asyncio.ensure_future(self._watch.wait_until_cancelled(attempt_pk))
        try:
            await asyncio.wait({executing, cancelling}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({executing}, timeout=self._supervisor.limits.cancel)
            if not executing.done():
                why = f"Its process was ended to cancel attempt {attempt_pk}, whose agent did not react."
                await self._supervisor.end_process(child.id, why)
            await executing
        except RuntimeUnavailable as error:
            if child.ready.is_set() and not child.is_alive:
                raise Undelivered(error.message) from error
            raise
        finally:
            executing.cancel()
            cancelling.cancel()
            await asyncio.gather(executing, cancelling, return_exceptions=True)
