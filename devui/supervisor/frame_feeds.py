"""Frames of runs for any number of pages, with one subscription per run in this web process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

from devui.supervisor import http_calls
from sessions_app.agent_processes import processes
from sessions_app.runs.background import BackgroundTasks
from sessions_app.runs.frame_log import FrameLog
from sessions_app.runs.runtime_client import Frame
from sessions_app.store.database import retry
from sessions_app.store.database.change_listener import subscribe
from sessions_app.store.errors import DevUIError, RuntimeUnavailable
from sessions_app.store.models import Run

PAUSE_S = 0.05
"""Minimum seconds between two reads of the row of a run that nothing streams, however many changes there are."""

FOREIGN_CANCEL_S = 2 * processes.HEARTBEAT_S + 2
"""Seconds for a process of another server to read a cancel request and to end the run."""

RETAIN_S = 10.0
"""Seconds that an ended feed is kept for late pages."""

log = logging.getLogger(__name__)


class FrameFeeds:
    """The feeds of this web process. `find_peer` returns the process that streams a run, or None."""

    def __init__(self, find_peer: Callable[[Run], http_calls.Peer | None]) -> None:
        self._find_peer = find_peer
        self._feeds: dict[str, FrameLog] = {}
        self._tasks = BackgroundTasks()

    async def follow(self, run_id: str, after: int = 0) -> AsyncIterator[Frame]:
        """Yield a run's frames with n > `after`, stored ones first, until its end."""
        if run_id not in self._feeds:
            self._feeds[run_id] = FrameLog()
            self._tasks.start(self._fill_feed(run_id, self._feeds[run_id]))
        async with aclosing(self._feeds[run_id].follow(after)) as frames:
            async for frame in frames:
                yield frame

    async def await_foreign_cancel(self, run_id: str) -> None:
        """Wait for the end of a run that another server's process has to cancel.

        Raises:
            RuntimeUnavailable: the process does not react.
        """
        try:
            async with asyncio.timeout(FOREIGN_CANCEL_S):
                async for frame in self.follow(run_id):
                    if frame["type"] == "end":
                        return
        except TimeoutError as error:
            raise RuntimeUnavailable(
                f"Run {run_id} belongs to a process of another server, which does not react.",
                hint="The run is marked as crashed when the heartbeat of that process stops.",
            ) from error

    async def close(self) -> None:
        """End all feeds; their readers get the frames so far."""
        self._feeds = {}
        await self._tasks.cancel()

    async def _fill_feed(self, run_id: str, frames: FrameLog) -> None:
        """Add the frames of a run until its end. While nothing streams it, a feed without readers is given up."""
        try:
            async with subscribe() as changes:
                while not frames.has_ended:
                    run = await retry.read(_read_run, run_id)
                    if run is None or run.status not in Run.ACTIVE:
                        _publish_end(frames, run.status if run else Run.Status.CANCELLED)
                    elif peer := self._find_peer(run):
                        await self._read_frames(peer, run_id, frames)
                    elif not frames.readers:
                        self._forget_feed(run_id, frames)
                        return
                    else:
                        await asyncio.sleep(PAUSE_S)
                        await changes.wait()
        except Exception:
            log.exception("Run %s cannot be watched any more.", run_id)
        finally:
            if not frames.has_ended:
                _publish_end(frames, Run.Status.RUNNING)
            asyncio.get_running_loop().call_later(RETAIN_S, self._forget_feed, run_id, frames)

    def _forget_feed(self, run_id: str, frames: FrameLog) -> None:
        if self._feeds.get(run_id) is frames:
            del self._feeds[run_id]

    async def _read_frames(self, peer: http_calls.Peer, run_id: str, frames: FrameLog) -> None:
        """Read frames until the end, or until the process releases the run or is silent; its row has the status."""
        try:
            async for frame in http_calls.stream_frames(peer, run_id, after=frames.last):
                if frame["type"] == "end" and frame["status"] in Run.ACTIVE:
                    return
                frames.add(frame)
        except DevUIError:
            await asyncio.sleep(PAUSE_S)


def _publish_end(frames: FrameLog, status: str) -> None:
    frames.publish("status", status=status)
    frames.publish("end", status=status)


def _read_run(run_id: str) -> Run | None:
    columns = ("status", "runtime__server_id")
    return Run.objects.filter(pk=run_id).select_related("runtime").only(*columns).first()
