"""What the active runs of a session are saying."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

from sessions_app.errors import DevUIError
from sessions_app.live.streaming_text import StreamingText, TextStream
from sessions_app.models import Event, Run
from sessions_app.runs.runtime_client import provider

log = logging.getLogger(__name__)


class RunStreams:
    """Follows the runs of one app that it is told of. `changed` is set when there is something else to show."""

    def __init__(self, app_name: str) -> None:
        self.app_name = app_name
        self.changed = asyncio.Event()
        self._pending: dict[str, StreamingText] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def are_open(self) -> bool:
        """Tell whether a run is followed that may say something."""
        return bool(self._pending)

    def follow(self, run: Run | None, last_shown: int) -> None:
        """Follow a run until it ends; one that is followed already, or None, changes nothing.

        Args:
            last_shown: seq of the last event that pages show.
        """
        if run is None or run.pk in self._tasks:
            return
        self._pending[run.pk] = StreamingText(last_shown)
        self._tasks[run.pk] = asyncio.create_task(self._read(run.pk), name=f"devui-stream-{run.pk}")

    def shown(self, events: Iterable[Event]) -> None:
        """Take note of events that go to the page: what they hold is pending no more."""
        for pending in self._pending.values():
            if pending.shown(events):
                self.changed.set()

    def now(self) -> list[TextStream]:
        """Return what is being said."""
        return [stream for pending in self._pending.values() for stream in pending.streams]

    async def close(self) -> None:
        """Stop following."""
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _read(self, run_id: str) -> None:
        """Read a run's stream to its end. Without it the page shows the stored events all the same."""
        with suppress(asyncio.CancelledError):
            try:
                client = await provider().client(self.app_name)
                async for frame in client.stream(run_id):
                    if self._pending[run_id].take(frame):
                        self.changed.set()
            except DevUIError as error:
                log.info("Run %s cannot be watched while it streams: %s", run_id, error.message)
            except Exception:
                log.exception("Run %s: its stream broke", run_id)
            if self._pending.pop(run_id).streams:
                self.changed.set()
