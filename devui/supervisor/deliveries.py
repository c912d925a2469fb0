"""Handing queued runs to processes, and to the next one when a process ends before it has begun them.

A run is delivered by one task at a time, and ends up in one of four ways: a process has it, it ended meanwhile, it is
ended here with the reason, or the server comes to its end: then it stays queued, and the next one takes it up. Nobody
else ends a run that is on its way.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from functools import partial
from typing import Protocol

from devui.supervisor import http_calls
from devui.supervisor.runtime_process import Child
from sessions_app.errors import DevUIError, RuntimeUnavailable, ServerStopping, StoreFault
from sessions_app.models import Run
from sessions_app.runs import lifecycle
from sessions_app.store import retry, units_of_work

DELIVERY_WAIT_S = 3.0
"""Seconds to wait for a process to take a run. A blocked one takes it later; the run is queued meanwhile."""

MAX_PROCESSES = 3
"""How many processes may end before they have begun a run; then it has crashed, like what it was handed to."""

Status = Run.Status

log = logging.getLogger(__name__)


class DeliveryTargets(Protocol):
    """The runtime processes of a web process, as far as handing over runs needs them."""

    id: str

    async def child(self, app_name: str) -> Child:
        """Return the app's process, started if necessary.

        Raises:
            DevUIError: it cannot be started.
        """

    def is_current(self, child: Child) -> bool:
        """Return whether new runs of the app go to this process."""


class Deliveries:
    """The runs of one web process that are on their way to a runtime."""

    def __init__(self, processes: DeliveryTargets) -> None:
        self._processes = processes
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ended_before: Counter[str] = Counter()

    async def deliver(self, app_name: str, run_id: str) -> None:
        """Hand over a queued run; one that has ended meanwhile is left alone. Waits for `HAND_OVER_S` at most.

        Raises:
            DevUIError: no process can take it; its row says why.
            ServerStopping: it stays queued.
        """
        delivering = self.start(app_name, run_id)
        done, _ = await asyncio.wait([delivering], timeout=DELIVERY_WAIT_S)
        if done:
            _raise_failure(delivering)

    def redeliver(self, child: Child, run_ids: list[str]) -> None:
        """Hand what a process that has ended did not begin to the next one, unless it is on its way already."""
        for run_id in run_ids:
            if not self._is_on_its_way(run_id):
                self._ended_before[run_id] += 1
                self.start(child.app_name, run_id, child)

    def start(self, app_name: str, run_id: str, before: Child | None = None) -> asyncio.Task[None]:
        """Deliver a run in a task of its own. `before` is the process that ended with it."""
        if not self._is_on_its_way(run_id):
            task = asyncio.create_task(self._deliver(app_name, run_id, before))
            self._tasks[run_id] = task
            task.add_done_callback(lambda done: self._forget(run_id, done))
        return self._tasks[run_id]

    async def close(self) -> None:
        """Stop delivering. What no process has yet belongs to this server, which the next one sees has gone."""
        tasks, self._tasks = dict(self._tasks), {}
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        for run_id in tasks:
            await self._take_back(run_id)

    def _is_on_its_way(self, run_id: str) -> bool:
        """Tell whether a task delivers a run. One that is done looks after its run no more."""
        return run_id in self._tasks and not self._tasks[run_id].done()

    def _forget(self, run_id: str, done: asyncio.Task[None]) -> None:
        if self._tasks.get(run_id) is done:
            del self._tasks[run_id]
        if not done.cancelled() and (error := done.exception()):
            log.warning("A run could not be handed over: %s", error)

    async def _deliver(self, app_name: str, run_id: str, before: Child | None) -> None:
        try:
            while self._may_go_on(run_id):
                before = await retry.run(partial(self._offer_run, app_name, run_id))
                if before is None:
                    return
                if not before.is_alive:
                    self._ended_before[run_id] += 1
        except ServerStopping:
            await self._take_back(run_id)
            raise
        except DevUIError as error:
            await self._give_up(run_id, type(error).__name__, f"{error.message} {error.hint}".strip())
            raise
        except Exception as error:
            log.exception("Run %s could not be handed over", run_id)
            await self._give_up(
                run_id, type(error).__name__, "It could not be handed over; the server's log says why."
            )
            raise
        how = before.describe_end() if before else ""
        why = f"{MAX_PROCESSES} processes ended before they had begun it. {how}".strip()
        await self._give_up(run_id, "RuntimeCrashed", why)
        raise RuntimeUnavailable(why, hint="The server's log has their output.")

    def _may_go_on(self, run_id: str) -> bool:
        return self._ended_before[run_id] < MAX_PROCESSES

    async def _offer_run(self, app_name: str, run_id: str) -> Child | None:
        """Hand a run to the app's process. Return the process when the run still waits and is to go to the next one.

        That is so when the process has ended, or is replaced because the code has changed.

        Raises:
            DevUIError: the process does not take it, or the run ended with it.
        """
        child = await self._processes.child(app_name)
        refusal: DevUIError | None = None
        try:
            with child.hold():
                if not await units_of_work.write(lifecycle.assign, run_id, child.id):
                    return None
                if not await self._has_present_code(child):
                    return child
                await http_calls.call(child, "POST", "/devui/runs", {"run_id": run_id})
        except DevUIError as error:
            refusal = error
        if not child.is_alive:
            await child.exited.wait()
            status = await units_of_work.read(lifecycle.get_status, run_id)
            if status == Status.QUEUED:
                return child
            if status in lifecycle.ACTIVE:
                return None
        if refusal is not None:
            raise refusal
        return None if self._processes.is_current(child) else child

    async def _has_present_code(self, child: Child) -> bool:
        """Tell whether what a process has loaded is the present code. One that dies in loading it says so itself."""
        if child.settled.is_set():
            return True
        await child.settled.wait()
        return not child.is_alive or await self._processes.child(child.app_name) is child

    async def _give_up(self, run_id: str, error_type: str, error: str) -> None:
        status = Status.CRASHED if self._ended_before.pop(run_id, 0) else Status.FAILED
        await retry.write(lifecycle.end_queued, run_id, status, error_type, error)

    async def _take_back(self, run_id: str) -> None:
        """Let a run wait for the next server, which sees that this one has gone.

        When the store does not take that, the run belongs to its process, which ends with this server.
        """
        try:
            await units_of_work.write(lifecycle.assign, run_id, self._processes.id)
        except StoreFault as fault:
            log.warning("Run %s waits for the next server: %s", run_id, fault.message)


def _raise_failure(done: asyncio.Task[None]) -> None:
    """Raise what a delivery raised.

    Raises:
        DevUIError: no process can take the run.
        ServerStopping: it stays queued.
    """
    if done.cancelled():
        raise ServerStopping
    done.result()
