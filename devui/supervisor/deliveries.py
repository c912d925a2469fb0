"""Delivery of queued runs to runtime processes, and to the next process if one ends before it has started them.

One task at a time delivers a run. It ends in one of four ways: a process takes the run, the run has ended, the run is
ended here with a reason, or the server stops and the run stays queued for the next server. Nothing else ends a run
during its delivery.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

from django.db import DatabaseError

from devui.supervisor import http_calls
from devui.supervisor.runtime_process import RuntimeChild
from sessions_app.runs import lifecycle
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.errors import DevUIError, RuntimeUnavailable, ServerStopping, StoreFault
from sessions_app.store.models import Run

MAX_PROCESSES = 3
"""Number of processes that may end before they have started a run; then the run has crashed."""

Status = Run.Status

log = logging.getLogger(__name__)


class Deliveries:
    """The runs of one web process that are being delivered to a runtime.

    Attributes:
        server_id: id of the web process.
        child: returns an app's process, started if necessary, or raises a `DevUIError`.
        is_current: tells whether new runs of its app go to a process.
        wait_s: seconds to wait for a process to take a run (`SupervisorLimits.take`).
    """

    def __init__(
        self,
        server_id: str,
        child: Callable[[str], Awaitable[RuntimeChild]],
        is_current: Callable[[RuntimeChild], bool],
        wait_s: float,
    ) -> None:
        self.server_id = server_id
        self.child = child
        self.is_current = is_current
        self.wait_s = wait_s
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ended_processes: Counter[str] = Counter()  # by run: those that ended before they had started it

    async def deliver(self, app_name: str, run_id: str) -> None:
        """Deliver a queued run; a run that has ended is left alone. Waits at most `wait_s`.

        Raises:
            DevUIError: no process can take the run; its row has the reason.
            ServerStopping: the run stays queued.
        """
        delivering = self.start(app_name, run_id)
        done, _ = await asyncio.wait([delivering], timeout=self.wait_s)
        if done:
            _raise_failure(delivering)

    def redeliver(self, child: RuntimeChild, run_ids: list[str]) -> None:
        """Deliver the runs that an ended process did not start to the next one, unless a delivery is in progress."""
        for run_id in run_ids:
            if not self._is_being_delivered(run_id):
                self._ended_processes[run_id] += 1
                self.start(child.app_name, run_id, child)

    def start(self, app_name: str, run_id: str, last: RuntimeChild | None = None) -> asyncio.Task[None]:
        """Deliver a run in a task of its own. `last`: the process that ended before it had started the run."""
        if not self._is_being_delivered(run_id):
            task = asyncio.create_task(self._deliver_run(app_name, run_id, last))
            self._tasks[run_id] = task
            task.add_done_callback(lambda done: self._forget_delivery(run_id, done))
        return self._tasks[run_id]

    async def close(self) -> None:
        """Stop all deliveries. Their runs belong to this server, until the next server sees that it has ended."""
        tasks, self._tasks = dict(self._tasks), {}
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        for run_id in tasks:
            await self._take_back(run_id)

    def _is_being_delivered(self, run_id: str) -> bool:
        """Tell whether a task is delivering a run. A finished task no longer counts."""
        return run_id in self._tasks and not self._tasks[run_id].done()

    def _forget_delivery(self, run_id: str, done: asyncio.Task[None]) -> None:
        if self._tasks.get(run_id) is done:
            del self._tasks[run_id]
        if not done.cancelled() and (error := done.exception()):
            log.warning("A run could not be delivered: %s", error)

    async def _deliver_run(self, app_name: str, run_id: str, last: RuntimeChild | None) -> None:
        try:
            while self._may_try_again(run_id):
                last = await retry.run(partial(self._send_run, app_name, run_id))
                if last is None:
                    return
                if not last.is_alive or last.is_suspect:
                    self._ended_processes[run_id] += 1
        except ServerStopping:
            await self._take_back(run_id)
            raise
        except DevUIError as error:
            await self._give_up(run_id, type(error).__name__, f"{error.message} {error.hint}".strip())
            raise
        except Exception as error:
            log.exception("Run %s could not be delivered", run_id)
            await self._give_up(
                run_id,
                type(error).__name__,
                "The run could not be delivered; the server's log has the cause.",
            )
            raise
        how = last.describe_end() if last else ""
        why = f"{MAX_PROCESSES} processes ended before they had started it. {how}".strip()
        await self._give_up(run_id, "RuntimeCrashed", why)
        raise RuntimeUnavailable(why, hint="The server's log has their output.")

    def _may_try_again(self, run_id: str) -> bool:
        return self._ended_processes[run_id] < MAX_PROCESSES

    async def _send_run(self, app_name: str, run_id: str) -> RuntimeChild | None:
        """Send a run to the app's process. Return the process if the run is still queued and must go to the next one.

        That is the case if the process has ended, cannot be reached, or is replaced because the code has changed.

        Raises:
            DevUIError: the process refuses the run, or the run ended with it.
        """
        child = await self.child(app_name)
        refusal: DevUIError | None = None
        try:
            with child.hold():
                if not await units_of_work.write(lifecycle.assign, run_id, child.id):
                    return None
                if not await self._has_current_code(child):
                    return child
                await http_calls.call(child, "POST", "/devui/runs", {"run_id": run_id})
        except DevUIError as error:
            refusal = error
        if not child.is_alive:
            await child.exited.wait()
            status = await units_of_work.read(lifecycle.get_status, run_id)
            if status == Status.QUEUED:
                return child
            if status in Run.ACTIVE:
                return None
        if child.is_suspect:
            return child
        if refusal is not None:
            raise refusal
        return None if self.is_current(child) else child

    async def _has_current_code(self, child: RuntimeChild) -> bool:
        """Tell whether a process has loaded the current code. True if it dies while loading."""
        if child.settled.is_set():
            return True
        await child.settled.wait()
        return not child.is_alive or await self.child(child.app_name) is child

    async def _give_up(self, run_id: str, error_type: str, error: str) -> None:
        status = Status.CRASHED if self._ended_processes.pop(run_id, 0) else Status.FAILED
        await retry.write(lifecycle.end_queued, run_id, status, error_type, error)

    async def _take_back(self, run_id: str) -> None:
        """Assign a run to this server, so that the next server takes it once this one has ended.

        If the store does not accept that, because it fails or this server's row was deleted after a day of silence,
        the run belongs to its process, which ends with this server.
        """
        try:
            await units_of_work.write(lifecycle.assign, run_id, self.server_id)
        except (StoreFault, DatabaseError) as error:
            log.warning("Run %s waits for the next server: %s", run_id, error)


def _raise_failure(done: asyncio.Task[None]) -> None:
    """Raise the exception of a delivery: no process can take the run, or the server stops and the run stays queued."""
    if done.cancelled():
        raise ServerStopping
    done.result()
