"""Delivery of conversation runs."""

from __future__ import annotations

from typing_extensions import override

from sessions_app.agent_processes import processes
from sessions_app.delivery.deliveries import Delivery
from sessions_app.delivery.failure import Failure
from sessions_app.delivery.process_tries import MAX_PROCESSES
from sessions_app.runs import lifecycle
from sessions_app.runs.runtime_client import RuntimeProvider, provider


class RunDelivery(Delivery):
    """A queued run on its way to a process of its app.

    A run that a process has claimed is ended by that process. A released run is assigned to this server: the next one
    takes it once this one has ended.
    """

    def __init__(self, app_name: str, run_id: str, runtimes: RuntimeProvider | None = None) -> None:
        """Deliver the run with id `run_id`. `runtimes` finds the process; None: the provider of this process."""
        super().__init__(app_name, run_id)
        self._runtimes = runtimes

    @override
    async def send(self) -> None:
        client = await (self._runtimes or provider()).client(self.app_name)
        await client.start_run(self.key)

    @override
    def end(self, failure: Failure, ended_processes: int) -> None:
        status = lifecycle.Status.CRASHED if ended_processes else lifecycle.Status.FAILED
        if ended_processes >= MAX_PROCESSES:
            why = f"{MAX_PROCESSES} processes ended before they had started it. {failure.message}"
            failure = Failure("RuntimeCrashed", why.strip())
        lifecycle.end_queued(self.key, status, failure)

    @override
    def release(self) -> None:
        if server_id := processes.own_id():
            lifecycle.assign(self.key, server_id)
