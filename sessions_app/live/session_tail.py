"""Changes of a session as messages for one page.

Messages are JSON objects; `type` is one of

- `events`: cursor (seq of the last event sent), last (seq of the session's last event), count, html, pending
- `pending`: html of the streaming text, empty if there is none
- `run`: html of the console's runs, active (whether one is)
- `marks`: html of the timeline's marks for runs that began or ended, one `<template>` per run; errors: html of the
  events at which they broke, which replaces those on the page
- `nested`: html of the nested runs that changed, one `<template>` per run
- `log`: html of the numbers of log records that changed, one `<template>` per event
- `judgements`: html of the judgements that changed, one `<template>` per event, empty if it was withdrawn
- `board`, `sessions`, `problems`: mark: a page with another mark shows an outdated state, list of sessions or problems
- `title`: name of the session
- `gone`: the session was deleted; `reset`: the page knows events that the store does not
- `beat`: heartbeat after a while without messages
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from sessions_app.live.page_socket import to_json
from sessions_app.live.session_broadcast import SessionBroadcast, SessionView
from sessions_app.live.snapshot import EventBatch, SessionSnapshot
from sessions_app.timeline.run_marks import changed_marks

Message = dict[str, Any]
SendText = Callable[[str], Awaitable[None]]

NESTED_RECENT_S = 30.0
"""A new socket gets changes of nested runs up to this age: its page may have been rendered before them."""

JUDGED_RECENT_S = 30.0
"""A new socket gets changes of judgements up to this age, for the same reason."""

LOG_RECENT = 100
"""A new socket gets the counts of this many newest log records, for the same reason."""

HEARTBEAT_S = 15.0
"""Seconds between heartbeats. A page that receives nothing for three times as long reconnects."""


class SessionTail:
    """Follows a session from a cursor. With `rows=False` events are counted, not rendered.

    The `SessionBroadcast` reads and renders for all sockets; each tail tracks what its own socket was sent.
    """

    def __init__(
        self,
        session_pk: int,
        cursor: int,
        send_text: SendText,
        *,
        rows: bool = True,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        """Send each message with `send_text`, and a heartbeat after so many seconds without one."""
        self.session_pk = session_pk
        self.cursor = cursor
        self.rows = rows
        self._send_text = send_text
        self._heartbeat_s = heartbeat_s
        self._sent_marks: dict[str, str] = {"pending": ""}
        self._known_runs: dict[str, str] = {}
        self._nested_changed_at = 0.0
        self._last_record = -1
        self._judged_at = 0.0
        self._last_sent = time.monotonic()

    async def run(self) -> None:
        """Send changes until the session is gone. Send nothing if it does not exist."""
        make = partial(SessionBroadcast, self.session_pk)
        async with SessionBroadcast.join(self.session_pk, make) as broadcast:
            await broadcast.wait_for_fresh_view()
            snapshot = broadcast.view.snapshot
            if snapshot is None:
                return
            while snapshot is not None:
                number = broadcast.number
                await self._send_view(broadcast, broadcast.view, snapshot)
                await self._wait_for_view(broadcast, number)
                snapshot = broadcast.view.snapshot
            await self._send_message(to_json({"type": "gone"}))

    async def _send_view(
        self, broadcast: SessionBroadcast, view: SessionView, snapshot: SessionSnapshot
    ) -> None:
        if self.cursor > snapshot.last_seq:
            self.cursor = snapshot.last_seq
            await self._send_message(to_json({"type": "reset"}))
        await self._send_events(broadcast, view, snapshot)
        await self._send_changes(broadcast, snapshot)
        await self._send_if_changed(broadcast, "pending", view.pending, {"html": view.pending})

    async def _wait_for_view(self, broadcast: SessionBroadcast, number: int) -> None:
        """Wait for a new view; send a heartbeat if none comes in time."""
        silence = time.monotonic() - self._last_sent
        if not await broadcast.wait_for_view(number, self._heartbeat_s - silence):
            await self._send_message(to_json({"type": "beat"}))

    async def _send_message(self, text: str) -> None:
        self._last_sent = time.monotonic()
        await self._send_text(text)

    async def _send_events(
        self, broadcast: SessionBroadcast, view: SessionView, snapshot: SessionSnapshot
    ) -> None:
        """Send the events up to the snapshot's last one, in batches."""
        if not self.rows and self.cursor < snapshot.last_seq:
            count, self.cursor = snapshot.last_seq - self.cursor, snapshot.last_seq
            message = {"type": "events", "cursor": self.cursor, "last": self.cursor, "count": count}
            await self._send_message(to_json(message))
        while self.cursor < snapshot.last_seq:
            batch = await broadcast.batch(self.cursor, snapshot.last_seq)
            if not batch.events:
                return
            key = ("events", self.cursor, snapshot.last_seq, view.pending)
            text = broadcast.render_once(key, partial(_events_text, batch, snapshot.last_seq, view.pending))
            self.cursor = batch.events[-1].seq
            self._sent_marks["pending"] = view.pending
            await self._send_message(text)

    async def _send_changes(self, broadcast: SessionBroadcast, snapshot: SessionSnapshot) -> None:
        await self._send_if_changed(broadcast, "board", snapshot.state_mark, {"mark": snapshot.state_mark})
        await self._send_if_changed(broadcast, "sessions", snapshot.list_mark, {"mark": snapshot.list_mark})
        await self._send_if_changed(
            broadcast, "problems", snapshot.problems_mark, {"mark": snapshot.problems_mark}
        )
        await self._send_if_changed(broadcast, "title", snapshot.name, {"name": snapshot.name})
        if self._sent_marks.get("run") != snapshot.runs.mark:
            message = {"html": await broadcast.runs(snapshot), "active": bool(snapshot.runs.active)}
            await self._send_if_changed(broadcast, "run", snapshot.runs.mark, message)

        marks, self._known_runs = changed_marks(snapshot.runs, self._known_runs)
        if marks:
            cursor = self.cursor if self.rows else 0
            html, errors = await broadcast.marks(marks, cursor)
            await self._send_message(to_json({"type": "marks", "html": html, "errors": errors}))
        await self._send_nested(broadcast, snapshot)
        await self._send_log(broadcast, snapshot)
        await self._send_judgements(broadcast, snapshot)

    async def _send_log(self, broadcast: SessionBroadcast, snapshot: SessionSnapshot) -> None:
        """Send the logs below events whose numbers of records changed."""
        if not self.rows or snapshot.last_record == self._last_record:
            return
        since = self._last_record if self._last_record >= 0 else snapshot.last_record - LOG_RECENT
        self._last_record = snapshot.last_record
        if html := await broadcast.log(snapshot, since):
            await self._send_message(to_json({"type": "log", "html": html}))

    async def _send_nested(self, broadcast: SessionBroadcast, snapshot: SessionSnapshot) -> None:
        changed_at = snapshot.nested_changed_at
        if not self.rows or changed_at == self._nested_changed_at:
            return
        since = self._nested_changed_at or changed_at - NESTED_RECENT_S
        self._nested_changed_at = changed_at
        if html := await broadcast.nested_runs(snapshot, since):
            await self._send_message(to_json({"type": "nested", "html": html}))

    async def _send_judgements(self, broadcast: SessionBroadcast, snapshot: SessionSnapshot) -> None:
        judged_at = snapshot.judged_at
        if not self.rows or judged_at == self._judged_at:
            return
        since = self._judged_at or judged_at - JUDGED_RECENT_S
        self._judged_at = judged_at
        if html := await broadcast.judgements(snapshot, since):
            await self._send_message(to_json({"type": "judgements", "html": html}))

    async def _send_if_changed(
        self, broadcast: SessionBroadcast, kind: str, mark: str, message: Message
    ) -> None:
        """Send a message unless the last one of its type had the same mark."""
        if self._sent_marks.get(kind) == mark:
            return
        self._sent_marks[kind] = mark
        await self._send_message(
            broadcast.render_once((kind, mark), partial(to_json, {"type": kind, **message}))
        )


def _events_text(batch: EventBatch, last: int, pending: str) -> str:
    message = {
        "type": "events",
        "cursor": batch.events[-1].seq,
        "last": last,
        "count": len(batch.events),
        "html": batch.html,
        "pending": pending,
    }
    return to_json(message)
