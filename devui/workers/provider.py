"""Runtimes of a web process without agents: those of all workers."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Coroutine
from types import TracebackType
from typing import Any, Self

from typing_extensions import override

from devui.supervisor import http_calls
from devui.supervisor.client import PeerClient
from devui.supervisor.frame_feeds import FrameFeeds
from devui.workers import waiting
from devui.workers.endpoint import END, WorkerEndpoint
from devui.workers.imports import WorkerImports
from devui.workers.queues import ProcrastinateQueue, keep_queue_alive
from devui.workers.worker_facts import WorkerFacts, living_workers
from sessions_app.agent_processes import processes
from sessions_app.runs import job_queue, lifecycle
from sessions_app.runs.background import BackgroundTasks, repeat, repeat_after_changes
from sessions_app.runs.job_queue import QUEUE_ID
from sessions_app.runs.runtime_client import Frame
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import RuntimeUnavailable
from sessions_app.store.models import Run, RuntimeProcess
from sessions_app.transfer.writers import jobs

PAUSE_S = 0.5
"""Minimum seconds between two reads of the workers, however many changes there are."""


class WorkerRuntimes:
    """Finds a worker with an app (`sessions_app.runs.runtime_client.RuntimeProvider`). An async context manager."""

    def __init__(self) -> None:
        self._workers: list[WorkerFacts] = []
        self._feeds = FrameFeeds(self._find_executing_process)
        self._tasks = BackgroundTasks()

    async def __aenter__(self) -> Self:
        await units_of_work.write(keep_queue_alive)
        processes.set_own_id(QUEUE_ID)
        job_queue.register(ProcrastinateQueue(), waiting.explain)
        jobs.register(WorkerImports())
        await self._read_workers()
        self.spawn(repeat_after_changes(self._read_workers, PAUSE_S, "The list of workers"))
        self.spawn(repeat(self._keep_queue_alive, processes.HEARTBEAT_S, "The heartbeat of the queue"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        job_queue.register(None)
        jobs.register(None)
        processes.set_own_id(None)
        await self._tasks.cancel()
        await self._feeds.close()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background until the server ends."""
        self._tasks.start(work)

    def apps(self) -> list[str]:
        """Return the sorted names of the apps of all workers."""
        return sorted({name for worker in self._workers for name in worker.apps})

    async def client(self, app_name: str) -> WorkerClient:
        """Return the client of an app, at whichever worker has it when it is called.

        Raises:
            RuntimeUnavailable: no worker has the app.
        """
        self._workers_with(app_name)
        return WorkerClient(self, self._feeds, app_name)

    async def find_endpoint(self, app_name: str) -> WorkerEndpoint:
        """Return a worker's process of an app. A worker that accepts no connection has just died: others come first.

        Raises:
            RuntimeUnavailable: no worker has the app.
        """
        *earlier, last = [
            WorkerEndpoint.find_app_process(worker, app_name) for worker in self._workers_with(app_name)
        ]
        for endpoint in earlier:
            if await endpoint.upstream.accepts_connections():
                return endpoint
        return last

    def _workers_with(self, app_name: str) -> list[WorkerFacts]:
        """Return the workers that can take requests of an app, in any order: it spreads them."""
        capable = [worker for worker in self._workers if app_name in worker.apps]
        if not capable:
            raise RuntimeUnavailable(
                f"No worker has agent {app_name!r}.",
                hint="Start one whose agents folder has it: python manage.py worker AGENTS_DIR.",
            )
        ready = [worker for worker in capable if not worker.is_draining] or capable
        return random.sample(ready, len(ready))

    async def end_process(self, runtime_id: str, why: str) -> bool:
        """End a process that does not react, at its worker. Return False if no living worker has it."""
        process = await units_of_work.read(RuntimeProcess.objects.filter(pk=runtime_id).first)
        worker = self._worker_with(process.server_id if process else None)
        if worker is None:
            return False
        peer = WorkerEndpoint.find_process_endpoint(worker, runtime_id)
        return bool((await http_calls.call(peer, "POST", END, {"why": why}))["ended"])

    def _worker_with(self, worker_id: str | None) -> WorkerFacts | None:
        return next((worker for worker in self._workers if worker.id == worker_id), None)

    def _find_executing_process(self, run: Run) -> WorkerEndpoint | None:
        """Return the process that executes a run; None while no worker has it."""
        if run.runtime is None or run.runtime_id is None:
            return None
        worker = self._worker_with(run.runtime.server_id)
        return None if worker is None else WorkerEndpoint.find_process_endpoint(worker, run.runtime_id)

    async def _read_workers(self) -> None:
        self._workers = await units_of_work.read(living_workers)

    async def _keep_queue_alive(self) -> None:
        """Keep the queue alive, and end the conversation runs of workers that are gone."""
        await units_of_work.write(keep_queue_alive)
        await units_of_work.write(lifecycle.crash_orphans)


class WorkerClient(PeerClient):
    """Client of one app for pages and API (`sessions_app.runs.runtime_client.RuntimeClient`)."""

    def __init__(self, runtimes: WorkerRuntimes, feeds: FrameFeeds, app_name: str) -> None:
        self._runtimes = runtimes
        self._feeds = feeds
        self._app_name = app_name

    async def start_run(self, run_id: str) -> None:
        """Do nothing: the job that delivers the run was written with its row."""

    async def cancel_run(self, run_id: str) -> None:
        """Cancel a run. The worker that has it reads the request in its row. Returns when the row has the end."""
        if await units_of_work.write(lifecycle.begin_cancel, run_id):
            await self._feeds.await_foreign_cancel(run_id)

    def stream(self, run_id: str, after: int = 0) -> AsyncIterator[Frame]:
        """Yield a run's frames with n > `after`, stored ones first, until `end`."""
        return self._feeds.follow(run_id, after)

    @override
    async def _find_peer(self) -> WorkerEndpoint:
        return await self._runtimes.find_endpoint(self._app_name)
