"""Broadcast of a session: its snapshot, the text its runs stream, and its new events as HTML."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from sessions_app.live import snapshot as snapshots
from sessions_app.live.broadcast import Broadcast
from sessions_app.live.run_streams import RunStreams
from sessions_app.live.snapshot import EventBatch, SessionSnapshot
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import DevUIError
from sessions_app.store.index import index_backlog
from sessions_app.store.models import Event
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.run_marks import RunMark, changed_marks

UPDATES_PER_SECOND = 15
"""Maximum rate of streamed text."""

STREAM_REST = 3
"""Pause between two updates of streamed text, as a multiple of the time it took to wake the listeners."""


@dataclass(frozen=True, slots=True)
class SessionView:
    """Snapshot of a session (None if it is gone) and the HTML of its streaming text."""

    snapshot: SessionSnapshot | None = field(compare=False)
    pending: str
    mark: tuple[object, ...]
    """Changes with everything that is shown of the snapshot."""


class SessionBroadcast(Broadcast[SessionView]):
    """The broadcast of a session. Streaming text in a view is never newer than the events of its snapshot."""

    def __init__(self, session_pk: int) -> None:
        super().__init__()
        self.session_pk = session_pk
        self._streams: RunStreams | None = None
        self._stream_task: asyncio.Task[None] | None = None
        self._publishing = asyncio.Lock()
        self._pending_html = ""
        self._last_seq = 0
        self._known_runs: dict[str, str] = {}
        self._checked_state = ""

    async def refresh(self) -> None:
        """Publish a new snapshot. Streaming text goes on until everything for it has been read."""
        snapshot = await units_of_work.read(snapshots.read_snapshot, self.session_pk)
        new_events = await self._prepare_view(snapshot) if snapshot is not None else []
        async with self._publishing:
            view = await self._build_view(snapshot, new_events)
            if not self.number or view != self.view:
                await self.publish(view)
        if snapshot is not None:
            await self._recheck_state(snapshot)

    async def close(self) -> None:
        """Stop following runs."""
        if self._stream_task is not None:
            self._stream_task.cancel()
            await asyncio.wait([self._stream_task])
        if self._streams is not None:
            await self._streams.close()

    async def batch(self, cursor: int, last: int) -> EventBatch:
        """Return the events after a cursor, at most up to `last` and one window."""
        limit = min(windows.WINDOW_SIZE, last - cursor)
        key = ("events", cursor, limit)
        return await self.read_once(key, snapshots.read_events_after, self.session_pk, cursor, limit)

    async def runs(self, snapshot: SessionSnapshot) -> str:
        """Return the HTML of the console's runs."""
        return await self.read_once(
            ("runs", snapshot.runs.mark),
            snapshots.runs_html,
            self.session_pk,
            snapshot.app_name,
            snapshot.runs,
        )

    async def marks(self, marks: list[RunMark], cursor: int) -> tuple[str, str]:
        """Return the HTML of the timeline's run marks, and of the errors up to a cursor that change with them."""
        key = ("marks", cursor, *((mark.run.pk, mark.version) for mark in marks))
        return await self.read_once(key, snapshots.marks_html, self.session_pk, marks, cursor)

    async def nested_runs(self, snapshot: SessionSnapshot, changed_at: float) -> str:
        """Return the HTML of the nested runs that changed after a time."""
        key = ("nested", snapshot.nested_changed_at, changed_at)
        return await self.read_once(key, snapshots.nested_html, self.session_pk, changed_at)

    async def log(self, snapshot: SessionSnapshot, after_pk: int) -> str:
        """Return the HTML of the numbers of log records that changed after a record."""
        key = ("log", snapshot.last_record, after_pk)
        return await self.read_once(key, snapshots.log_html, self.session_pk, after_pk)

    async def judgements(self, snapshot: SessionSnapshot, judged_at: float) -> str:
        """Return the HTML of the judgements that changed after a time."""
        key = ("judgements", snapshot.judged_at, judged_at)
        return await self.read_once(key, snapshots.judgements_html, self.session_pk, judged_at)

    async def _recheck_state(self, snapshot: SessionSnapshot) -> None:
        """Have the state checked when a page opens, and when another session has changed what this one reads."""
        if snapshot.is_checked and snapshot.state_mark != self._checked_state:
            with contextlib.suppress(DevUIError):
                await units_of_work.write(index_backlog.recheck, self.session_pk, "")
        self._checked_state = snapshot.state_mark

    async def _prepare_view(self, snapshot: SessionSnapshot) -> list[Event]:
        """Follow the session's run and read ahead; return the new events if text is streaming.

        The run is followed first: reading ahead takes longer than an agent needs for its first words.
        """
        streams = self._streams = self._streams or RunStreams(snapshot.app_name)
        were_open = streams.are_open
        streams.follow(snapshot.runs.streamed, snapshot.last_seq)
        if not self.number or snapshot.mark != self.view.mark:
            self.forget()
            await self._read_ahead(snapshot)
        if not were_open or snapshot.last_seq <= self._last_seq:
            return []
        return await units_of_work.read(
            snapshots.speakers_after, self.session_pk, self._last_seq, snapshot.last_seq
        )

    async def _build_view(self, snapshot: SessionSnapshot | None, new_events: list[Event]) -> SessionView:
        if snapshot is None or self._streams is None:
            return SessionView(None, "", ())
        self._streams.mark_shown(new_events)
        self._last_seq = snapshot.last_seq
        self._stream_task = self._stream_task or asyncio.create_task(
            self._publish_streams(self._streams), name="devui-broadcast-streams"
        )
        return SessionView(snapshot, await self._render_streaming_text(self._streams), snapshot.mark)

    async def _read_ahead(self, snapshot: SessionSnapshot) -> None:
        """Read in advance what up-to-date listeners will request."""
        marks, self._known_runs = changed_marks(snapshot.runs, self._known_runs)
        if not self.number:
            return
        if self._last_seq < snapshot.last_seq:
            await self.batch(self._last_seq, snapshot.last_seq)
        await self.runs(snapshot)
        if marks:
            await self.marks(marks, snapshot.last_seq)

    async def _publish_streams(self, streams: RunStreams) -> None:
        """Publish streaming text, at a limited rate."""
        while True:
            await streams.changed.wait()
            took = 0.0
            async with self._publishing:
                view = SessionView(
                    self.view.snapshot, await self._render_streaming_text(streams), self.view.mark
                )
                if view != self.view:
                    took = await self.publish(view)
            await asyncio.sleep(max(1 / UPDATES_PER_SECOND, STREAM_REST * took))

    async def _render_streaming_text(self, streams: RunStreams) -> str:
        """Return the HTML of the streaming text, rendered again if it changed."""
        if streams.changed.is_set():
            streams.changed.clear()
            now = streams.now()
            self._pending_html = await asyncio.to_thread(snapshots.pending_html, now) if now else ""
        return self._pending_html
