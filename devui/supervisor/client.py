"""Client of one app's runtime for pages and API (`sessions_app.runs.runtime_client.RuntimeClient`)."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import override

from devui.supervisor import http_calls
from devui.supervisor.frame_feeds import FrameFeeds
from devui.supervisor.limits import SupervisorLimits
from devui.supervisor.runtime_process import RuntimeChild
from sessions_app.delivery.process_tries import ProcessEnded
from sessions_app.runs import lifecycle
from sessions_app.runs.runtime_client import Frame, RuntimeSocket
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import DevUIError
from sessions_app.store.models import Run

if TYPE_CHECKING:
    import httpx


class SupervisedProcesses(Protocol):
    """The runtime processes of a web process, with the runs that they execute."""

    feeds: FrameFeeds
    limits: SupervisorLimits

    async def child(self, app_name: str) -> RuntimeChild:
        """Return the app's process, started if necessary."""

    def is_current(self, child: RuntimeChild) -> bool:
        """Tell whether new runs of its app go to a process."""

    def find_child(self, runtime_id: str | None) -> RuntimeChild | None:
        """Return the living process with this id, or None."""

    async def end_to_cancel(self, child: RuntimeChild, run_id: str) -> None:
        """End a process that does not react to the cancellation of its run."""


class PeerClient(ABC):
    """Sends requests to the process of an app. Subclasses find the process."""

    @abstractmethod
    async def _find_peer(self) -> http_calls.Peer:
        """Return where the process answers."""

    @asynccontextmanager
    async def open(
        self, method: str, path: str, *, headers: Mapping[str, str], content: bytes
    ) -> AsyncIterator[httpx.Response]:
        """Send a request to ADK's server in the process and stream the response."""
        peer = await self._find_peer()
        async with http_calls.open_stream(peer, method, path, headers, content) as response:
            yield response

    @asynccontextmanager
    async def open_socket(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[RuntimeSocket]:
        """Open a socket to ADK's server in the process."""
        async with http_calls.open_socket(await self._find_peer(), path, headers) as socket:
            yield socket

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Call one of the process's `/devui/…` endpoints and return its JSON."""
        return await http_calls.call(await self._find_peer(), method, path, body)


class AppClient(PeerClient):
    """Starts, streams and cancels runs, and forwards requests to ADK's server in the process."""

    def __init__(self, processes: SupervisedProcesses, child: RuntimeChild) -> None:
        """Create the client of the app of a process, which has just been found."""
        self._processes = processes
        self._child = child
        self._app_name = child.app_name

    async def start_run(self, run_id: str) -> None:
        """Send a queued run to the process, or to the one that replaces it because the code has changed.

        Raises:
            ProcessEnded: the process ended or cannot be reached, and the run is still queued.
            DevUIError: the process refuses the run, or the run ended with it.
        """
        while not await self._send_run(self._child, run_id):
            self._child = await self._processes.child(self._app_name)

    async def cancel_run(self, run_id: str) -> None:
        """Cancel a run; a process that does not react is ended. Returns when the row contains the run's end."""
        if not await units_of_work.write(lifecycle.begin_cancel, run_id):
            return
        runtime_id = await units_of_work.read(
            lambda: Run.objects.filter(pk=run_id).values_list("runtime_id", flat=True).first()
        )
        child = self._processes.find_child(runtime_id)
        if child is None:
            await self._processes.feeds.await_foreign_cancel(run_id)
        elif not await self._ends_by_itself(child, run_id):
            await self._processes.end_to_cancel(child, run_id)

    def stream(self, run_id: str, after: int = 0) -> AsyncIterator[Frame]:
        """Yield a run's frames with n > `after`, stored ones first, until `end`."""
        return self._processes.feeds.follow(run_id, after)

    @override
    async def _find_peer(self) -> RuntimeChild:
        return await self._processes.child(self._app_name)

    async def _send_run(self, child: RuntimeChild, run_id: str) -> bool:
        """Send a run to a process; return False if another process replaces it. Raises as `start_run`."""
        refusal: DevUIError | None = None
        try:
            with child.hold():
                if not await units_of_work.write(lifecycle.assign, run_id, child.id):
                    return True
                if not await self._has_current_code(child):
                    return False
                await http_calls.call(child, "POST", "/devui/runs", {"run_id": run_id})
        except DevUIError as error:
            refusal = error
        if not child.is_alive:
            await child.exited.wait()
            status = await units_of_work.read(lifecycle.get_status, run_id)
            if status == Run.Status.QUEUED:
                raise ProcessEnded(child.describe_end())
            if status in Run.ACTIVE:
                return True
        if child.is_suspect:
            raise ProcessEnded(child.describe_end())
        if refusal is not None:
            raise refusal
        return self._processes.is_current(child)

    async def _has_current_code(self, child: RuntimeChild) -> bool:
        """Tell whether a process has loaded the current code. True if it dies while loading."""
        if child.settled.is_set():
            return True
        await child.settled.wait()
        return not child.is_alive or await self._processes.child(child.app_name) is child

    async def _ends_by_itself(self, child: RuntimeChild, run_id: str) -> bool:
        try:
            async with asyncio.timeout(self._processes.limits.cancel):
                answer = await http_calls.call(child, "POST", f"/devui/runs/{run_id}/cancel")
        except (TimeoutError, DevUIError):
            return False
        return bool(answer["ended"])
