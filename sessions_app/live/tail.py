"""Everything that happens to a session, as messages for one page.

Messages are JSON objects; `type` is one of

- `events`: cursor (seq of the last event sent), last (seq of the session's last event), count, html, pending
- `pending`: html of the text that streams at the moment, empty when none does
- `run`: html of what the console tells of runs, active (whether one is)
- `marks`: html of what the timeline tells of runs that began or ended, one `<template>` a run; errors: html of the
  events at which they broke, to be shown in place of those on the page
- `board`, `sessions`: mark: the state, or the list of sessions, is another than a page with another mark shows
- `title`: name of the session, as text
- `gone`: the session was deleted; `reset`: the page knows events that the store does not
- `beat`: nothing happened for a while, and the line is well
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from sessions_app import db
from sessions_app.live import look as reading
from sessions_app.live.bell import Ring, listen
from sessions_app.live.look import Look
from sessions_app.live.streams import Streams
from sessions_app.timeline.runs import news_of

Message = dict[str, Any]
Send = Callable[[Message], Awaitable[None]]

UPDATES_PER_SECOND = 15
"""How often streamed text is sent, however fast it comes."""

BEAT_S = 15.0
"""A page that hears nothing for three times as long takes the line for dead."""


class Tail:
    """Follows a session from a cursor on. With `rows` False events are counted and not rendered."""

    def __init__(self, session_pk: int, cursor: int, send: Send, *, rows: bool = True) -> None:
        self.session_pk = session_pk
        self.cursor = cursor
        self.rows = rows
        self._transmit = send
        self._told: Message = {}
        self._known_runs: dict[str, str] = {}
        self._last_sent = time.monotonic()

    async def run(self) -> None:
        """Send what is new until the session is gone."""
        async with listen() as ring:
            look = await self._look()
            if look is None:
                return
            streams = Streams(look.app_name)
            talk = asyncio.create_task(self._send_pending(streams))
            try:
                await self._follow(look, ring, streams)
            finally:
                talk.cancel()
                await asyncio.wait([talk])
                await streams.close()

    async def _follow(self, look: Look | None, ring: Ring, streams: Streams) -> None:
        while look is not None:
            if self.cursor > look.last_seq:
                self.cursor = look.last_seq
                await self._send({"type": "reset"})
            await self._send_events(look, streams)
            await self._send_marks(look)
            streams.follow(look.runs.running)
            await ring.wait()
            look = await self._look()
            if time.monotonic() - self._last_sent > BEAT_S:
                await self._send({"type": "beat"})
        await self._send({"type": "gone"})

    async def _send(self, message: Message) -> None:
        self._last_sent = time.monotonic()
        await self._transmit(message)

    async def _look(self) -> Look | None:
        return await db.read(reading.look_at, self.session_pk)

    async def _send_events(self, look: Look, streams: Streams) -> None:
        """Send the events up to the look's last one, a batch at a time."""
        if not self.rows and self.cursor < look.last_seq:
            count, self.cursor = look.last_seq - self.cursor, look.last_seq
            await self._send({"type": "events", "cursor": self.cursor, "last": self.cursor, "count": count})
        while self.cursor < look.last_seq:
            batch = await db.read(reading.events_after, self.session_pk, self.cursor)
            if not batch.events:
                return
            self.cursor = batch.events[-1].seq
            streams.shown(batch.events)
            await self._send(
                {
                    "type": "events",
                    "cursor": self.cursor,
                    "last": max(look.last_seq, self.cursor),
                    "count": len(batch.events),
                    "html": batch.html,
                    "pending": await self._pending_html(streams),
                }
            )

    async def _send_marks(self, look: Look) -> None:
        await self._tell({"type": "board", "mark": look.state_mark})
        await self._tell({"type": "sessions", "mark": look.list_mark})
        await self._tell({"type": "title", "name": look.name})
        mark = look.runs.mark
        if self._told.get("runs") != mark:
            self._told["runs"] = mark
            html = await db.read(reading.runs_html, self.session_pk, look.runs)
            await self._send({"type": "run", "html": html, "active": bool(look.runs.active)})

        marks, self._known_runs = news_of(look.runs.newest, self._known_runs)
        if marks:
            cursor = self.cursor if self.rows else 0
            html, errors = await db.read(reading.news_html, self.session_pk, marks, cursor)
            await self._send({"type": "marks", "html": html, "errors": errors})

    async def _tell(self, message: Message) -> None:
        """Send a message unless it is the one that was sent last of its type."""
        if self._told.get(message["type"]) != message:
            self._told[message["type"]] = message
            await self._send(message)

    async def _send_pending(self, streams: Streams) -> None:
        while True:
            await streams.changed.wait()
            streams.changed.clear()
            await self._send({"type": "pending", "html": await self._pending_html(streams)})
            await asyncio.sleep(1 / UPDATES_PER_SECOND)

    async def _pending_html(self, streams: Streams) -> str:
        return await asyncio.to_thread(reading.pending_html, streams.now()) if streams.now() else ""
