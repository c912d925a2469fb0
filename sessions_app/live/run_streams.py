"""Streaming text of a session's active runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

from sessions_app.live.streaming_text import StreamingText, TextStream
from sessions_app.runs.runtime_client import provider
from sessions_app.store.errors import DevUIError
from sessions_app.store.models import Event, Run

log = logging.getLogger(__name__)


class RunStreams:
    """Follows the streams of an app's runs. `changed` is set when their text changed."""

    def __init__(self, app_name: str) -> None:
        self.app_name = app_name
        self.changed = asyncio.Event()
        self._pending: dict[str, StreamingText] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failed: set[tuple[str, str]] = set()

    @property
    def are_open(self) -> bool:
        """Tell whether any run is being followed."""
        return bool(self._pending)

    def follow(self, run: Run | None, last_shown: int) -> None:
        """Follow a run until it ends. Does nothing for None or a run that is already followed.

        If a queued run cannot be followed, because no worker has its agent, a running one is tried once more.

        Args:
            last_shown: seq of the last event that pages show.
        """
        if run is None or run.pk in self._tasks or (run.pk, run.status) in self._failed:
            return
        self._pending[run.pk] = StreamingText(last_shown)
        self._tasks[run.pk] = asyncio.create_task(self._read_stream(run), name=f"devui-stream-{run.pk}")

    def mark_shown(self, events: Iterable[Event]) -> None:
        """Process events that are sent to pages: their text is not streaming any more."""
        for pending in self._pending.values():
            if pending.mark_shown(events):
                self.changed.set()

    def now(self) -> list[TextStream]:
        """Return the current text streams."""
        return [stream for pending in self._pending.values() for stream in pending.streams]

    async def close(self) -> None:
        """Stop following all runs."""
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _read_stream(self, run: Run) -> None:
        """Read a run's stream to its end. If it fails, pages still show the stored events."""
        with suppress(asyncio.CancelledError):
            try:
                client = await provider().client(self.app_name)
                async for frame in client.stream(run.pk):
                    if self._pending[run.pk].take(frame):
                        self.changed.set()
            except Exception as error:
                self._failed.add((run.pk, run.status))
                del self._tasks[run.pk]
                if isinstance(error, DevUIError):
                    log.info("The stream of run %s cannot be followed: %s", run.pk, error.message)
                else:
                    log.exception("The stream of run %s failed", run.pk)
            if self._pending.pop(run.pk).streams:
                self.changed.set()
