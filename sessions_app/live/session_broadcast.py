"""The broadcast of one session: where it stands, what its runs are saying, and its events as the page shows them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from sessions_app.live import snapshot as reading
from sessions_app.live.broadcast import Broadcast
from sessions_app.live.run_streams import RunStreams
from sessions_app.live.snapshot import EventBatch, Snapshot
from sessions_app.store import units_of_work
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.run_marks import RunMark, changed_marks

UPDATES_PER_SECOND = 15
"""How often streamed text is sent, however fast it comes."""

STREAM_REST = 3
"""How many times as long as listeners took to be woken for it, streamed text waits: events come first."""


@dataclass(frozen=True, slots=True)
class SessionView:
    """Where a session stands, and the HTML of the text that streams. None: there is no such session."""

    look: Snapshot | None = field(compare=False)
    pending: str
    mark: tuple[object, ...]
    """Changes with all that is shown of the look."""


class SessionBroadcast(Broadcast[SessionView]):
    """The broadcast of a session. No view holds anything newer than the events of its look."""

    def __init__(self, session_pk: int) -> None:
        super().__init__()
        self.session_pk = session_pk
        self._streams: RunStreams | None = None
        self._stream_task: asyncio.Task[None] | None = None
        self._publishing = asyncio.Lock()
        self._pending_html = ""
        self._last_seq = 0
        self._known_runs: dict[str, str] = {}

    async def refresh(self) -> float:
        """Look, and publish what is new. Streamed text is not published meanwhile: its event may be stored already."""
        look = await units_of_work.read(reading.read_snapshot, self.session_pk)
        async with self._publishing:
            view = await self._view_of(look)
            return await self.publish(view) if not self.number or view != self.view else 0.0

    async def close(self) -> None:
        """Follow no run any more."""
        if self._stream_task is not None:
            self._stream_task.cancel()
            await asyncio.wait([self._stream_task])
        if self._streams is not None:
            await self._streams.close()

    async def batch(self, cursor: int, last: int) -> EventBatch:
        """Return the events after a cursor, up to the one that a look saw last: a window of them at most."""
        limit = min(windows.WINDOW_SIZE, last - cursor)
        key = ("events", cursor, limit)
        return await self.read_once(key, reading.read_events_after, self.session_pk, cursor, limit)

    async def runs(self, look: Snapshot) -> str:
        """Return the HTML of the runs at the console."""
        return await self.read_once(("runs", look.runs.mark), reading.runs_html, self.session_pk, look.runs)

    async def marks(self, marks: list[RunMark], cursor: int) -> tuple[str, str]:
        """Return the HTML of runs on the timeline, and of the errors up to a cursor that are shown anew with them."""
        key = ("marks", cursor, *((mark.run.pk, mark.run.status, mark.run.invocation_id) for mark in marks))
        return await self.read_once(key, reading.marks_html, self.session_pk, marks, cursor)

    async def _view_of(self, look: Snapshot | None) -> SessionView:
        if look is None:
            return SessionView(None, "", ())
        is_news = not self.number or look.mark != self.view.mark
        if is_news:
            self.forget()
            await self._read_ahead(look)
        streams = self._streams = self._streams or self._start_streams(look)
        if self._last_seq < look.last_seq and streams.are_open:
            streams.shown(
                await units_of_work.read(
                    reading.speakers_after, self.session_pk, self._last_seq, look.last_seq
                )
            )
        self._last_seq = look.last_seq
        streams.follow(look.runs.running, look.last_seq)
        return SessionView(look, await self._pending(streams), look.mark)

    async def _read_ahead(self, look: Snapshot) -> None:
        """Read what listeners that are up to date will ask for."""
        marks, self._known_runs = changed_marks(look.runs.newest, self._known_runs)
        if not self.number:
            return
        if 0 < self._last_seq < look.last_seq:
            await self.batch(self._last_seq, look.last_seq)
        await self.runs(look)
        if marks:
            await self.marks(marks, look.last_seq)

    def _start_streams(self, look: Snapshot) -> RunStreams:
        streams = RunStreams(look.app_name)
        self._stream_task = asyncio.create_task(
            self._publish_streams(streams), name="devui-broadcast-streams"
        )
        return streams

    async def _publish_streams(self, streams: RunStreams) -> None:
        """Publish the text that streams, a few times a second."""
        while True:
            await streams.changed.wait()
            took = 0.0
            async with self._publishing:
                view = SessionView(self.view.look, await self._pending(streams), self.view.mark)
                if view != self.view:
                    took = await self.publish(view)
            await asyncio.sleep(max(1 / UPDATES_PER_SECOND, STREAM_REST * took))

    async def _pending(self, streams: RunStreams) -> str:
        """Return the text that streams, rendered when it has changed."""
        if streams.changed.is_set():
            streams.changed.clear()
            now = streams.now()
            self._pending_html = await asyncio.to_thread(reading.pending_html, now) if now else ""
        return self._pending_html
