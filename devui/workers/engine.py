"""Procrastinate in a worker: takes the jobs of its apps and returns those of workers that are gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

from procrastinate import App, RetryStrategy
from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import DeleteJobCondition, Status
from procrastinate.worker import Worker as JobWorker

from devui.workers import redelivery
from devui.workers.queues import EVAL_RUN_TASK, RUN_TASK, queues_of
from devui.workers.run_watch import RunWatch
from devui.workers.supervisor import WorkerSupervisor
from evals_app.models import EvalRun
from evals_app.runs import dispatch
from sessions_app.errors import DevUIError, ServerStopping
from sessions_app.models import Run
from sessions_app.runs import processes
from sessions_app.store import units_of_work

POLL_S = 1.0
"""Seconds between two checks for jobs, should a notification be lost or a queue be new."""

RETRY_S = 5
"""Seconds until a job that raised an unexpected error is tried again, and until a reconnection to a lost store."""

SILENCE_S = processes.SILENCE_S
"""Seconds without a heartbeat after which another worker takes the jobs of a worker."""

log = logging.getLogger(__name__)


class Engine:
    """The jobs of one worker. `take` sets what it takes; `drain` takes no more and waits for what runs."""

    def __init__(self, supervisor: WorkerSupervisor, watch: RunWatch, concurrency: int) -> None:
        self._supervisor = supervisor
        self._watch = watch
        self._concurrency = concurrency
        self._queues: list[str] = []
        self._is_draining = False
        self._app = App(connector=DjangoConnector().get_worker_connector())
        retry = RetryStrategy(wait=RETRY_S)
        self._app.task(name=RUN_TASK, retry=retry)(self._carry_out_run)
        self._app.task(name=EVAL_RUN_TASK, retry=retry)(self._carry_out_eval_run)
        self._worker = self._new_worker()

    @property
    def id(self) -> int | None:
        """Id of this worker in Procrastinate's table; None while it has none."""
        engine_id: int | None = self._worker.worker_id
        return engine_id

    def take(self, apps: Mapping[str, str], kinds: Iterable[str]) -> None:
        """Take jobs for these apps (name → code version) from now on."""
        self._queues[:] = queues_of(apps, kinds)

    async def run(self) -> None:
        """Take jobs until drained; reconnect if the store is lost."""
        async with self._app.open_async():
            while not self._is_draining:
                try:
                    await cast(Any, self._worker).run()
                except Exception:
                    log.exception("The engine stopped; it starts again in %d s.", RETRY_S)
                if not self._is_draining:
                    await asyncio.sleep(RETRY_S)
                    self._worker = self._new_worker()

    def drain(self) -> None:
        """Take no more jobs; `run` returns when the last one has ended."""
        self._is_draining = True
        cast(Any, self._worker).stop()

    async def retry_jobs_of_gone_workers(self) -> None:
        """Return the jobs of workers that are gone to their queues. A draining worker leaves that to others."""
        if self._is_draining:
            return
        jobs = self._app.job_manager
        for engine_id in await units_of_work.read(redelivery.engine_ids_of_gone_workers):
            for job in await jobs.list_jobs_async(status=Status.DOING.value, worker_id=engine_id):
                await self._retry(job.id)
        for job in await jobs.get_stalled_jobs(seconds_since_heartbeat=SILENCE_S):
            await self._retry(job.id)

    async def _retry(self, job_id: int | None) -> None:
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
            stalled_worker_timeout=SILENCE_S,
        )

    async def _carry_out_run(self, run_id: str) -> None:
        """Deliver a queued run to its process here, and wait for its end."""
        run = await units_of_work.read(
            Run.objects.select_related("session").filter(pk=run_id, status=Run.Status.QUEUED).first
        )
        if run is None:
            return
        try:
            await self._supervisor.deliveries.deliver(run.session.app_name, run_id)
        except ServerStopping:
            return
        except DevUIError as error:
            log.warning("Run %s failed: %s", run_id, error.message)
        await self._watch.wait_until_gone(run_id)

    async def _carry_out_eval_run(self, run_id: str) -> None:
        """Deliver a pending eval run to its process here, and wait for its end."""
        run = await units_of_work.read(EvalRun.objects.filter(pk=run_id, status=EvalRun.Status.PENDING).first)
        if run is None:
            return
        await dispatch.deliver_run(run_id, run.app_name, self._supervisor)
        await self._watch.wait_until_gone(run_id)
