"""Changes of a session as messages for one page.

Messages are JSON objects; `type` is one of

- `events`: cursor (seq of the last event sent), last (seq of the session's last event), count, html, pending
- `pending`: html of the streaming text, empty if there is none
- `run`: html of the console's runs, active (whether one is)
- `marks`: html of the timeline's marks for runs that began or ended, one `<template>` per run; errors: html of the
  events at which they broke, which replaces those on the page
- `board`, `sessions`: mark: a page with another mark shows an outdated state or list of sessions
- `title`: name of the session
- `gone`: the session was deleted; `reset`: the page knows events that the store does not
- `beat`: heartbeat after a while without messages
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from sessions_app.live import page_socket
from sessions_app.live.session_broadcast import SessionBroadcast, SessionView
from sessions_app.live.snapshot import EventBatch, Snapshot
from sessions_app.timeline.run_marks import changed_marks

Message = dict[str, Any]
Send = Callable[[str], Awaitable[None]]

HEARTBEAT_S = 15.0
"""Seconds between heartbeats. A page that receives nothing for three times as long reconnects."""


class SessionTail:
    """Follows a session from a cursor. With `rows=False` events are counted, not rendered.

    The `SessionBroadcast` reads and renders for all sockets; each tail tracks what its own socket was sent.
    """

    def __init__(self, session_pk: int, cursor: int, send: Send, *, rows: bool = True) -> None:
        """Send each message with `send`."""
        self.session_pk = session_pk
        self.cursor = cursor
        self.rows = rows
        self._transmit = send
        self._told: dict[str, str] = {"pending": ""}
        self._known_runs: dict[str, str] = {}
        self._last_sent = time.monotonic()

    async def run(self) -> None:
        """Send changes until the session is gone. Send nothing if it does not exist."""
        make = partial(SessionBroadcast, self.session_pk)
        async with SessionBroadcast.join(self.session_pk, make) as broadcast:
            await broadcast.wait_for_fresh_view()
            look = broadcast.view.look
            if look is None:
                return
            while look is not None:
                number = broadcast.number
                await self._send_view(broadcast, broadcast.view, look)
                await self._wait(broadcast, number)
                look = broadcast.view.look
            await self._send(page_socket.to_json({"type": "gone"}))

    async def _send_view(self, broadcast: SessionBroadcast, view: SessionView, look: Snapshot) -> None:
        if self.cursor > look.last_seq:
            self.cursor = look.last_seq
            await self._send(page_socket.to_json({"type": "reset"}))
        await self._send_events(broadcast, view, look)
        await self._send_marks(broadcast, look)
        await self._tell(broadcast, "pending", view.pending, {"html": view.pending})

    async def _wait(self, broadcast: SessionBroadcast, number: int) -> None:
        """Wait for a new view; send a heartbeat if none comes in time."""
        silence = time.monotonic() - self._last_sent
        if not await broadcast.wait_for_view(number, HEARTBEAT_S - silence):
            await self._send(page_socket.to_json({"type": "beat"}))

    async def _send(self, text: str) -> None:
        self._last_sent = time.monotonic()
        await self._transmit(text)

    async def _send_events(self, broadcast: SessionBroadcast, view: SessionView, look: Snapshot) -> None:
        """Send the events up to the snapshot's last one, in batches."""
        if not self.rows and self.cursor < look.last_seq:
            count, self.cursor = look.last_seq - self.cursor, look.last_seq
            message = {"type": "events", "cursor": self.cursor, "last": self.cursor, "count": count}
            await self._send(page_socket.to_json(message))
        while self.cursor < look.last_seq:
            batch = await broadcast.batch(self.cursor, look.last_seq)
            if not batch.events:
                return
            key = ("events", self.cursor, look.last_seq, view.pending)
            text = broadcast.render_once(key, partial(_events_text, batch, look.last_seq, view.pending))
            self.cursor = batch.events[-1].seq
            self._told["pending"] = view.pending
            await self._send(text)

    async def _send_marks(self, broadcast: SessionBroadcast, look: Snapshot) -> None:
        await self._tell(broadcast, "board", look.state_mark, {"mark": look.state_mark})
        await self._tell(broadcast, "sessions", look.list_mark, {"mark": look.list_mark})
        await self._tell(broadcast, "title", look.name, {"name": look.name})
        if self._told.get("run") != look.runs.mark:
            message = {"html": await broadcast.runs(look), "active": bool(look.runs.active)}
            await self._tell(broadcast, "run", look.runs.mark, message)

        marks, self._known_runs = changed_marks(look.runs.newest, self._known_runs)
        if marks:
            cursor = self.cursor if self.rows else 0
            html, errors = await broadcast.marks(marks, cursor)
            await self._send(page_socket.to_json({"type": "marks", "html": html, "errors": errors}))

    async def _tell(self, broadcast: SessionBroadcast, kind: str, mark: str, message: Message) -> None:
        """Send a message unless the last one of its type had the same mark."""
        if self._told.get(kind) == mark:
            return
        self._told[kind] = mark
        await self._send(
            broadcast.render_once((kind, mark), partial(page_socket.to_json, {"type": kind, **message}))
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
    return page_socket.to_json(message)
