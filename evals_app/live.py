"""The socket of a run's page: rows that changed, and the summary, as JSON envelopes of HTML."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer
from django.template.loader import render_to_string
from django.urls import URLPattern, path

from evals_app import report
from evals_app.models import EvalRun
from sessions_app import db
from sessions_app.live import page
from sessions_app.live.bell import listen

PAUSE_S = 0.15
"""Least time between two messages: a quick run changes many rows at once."""

BEAT_S = 15.0
"""Longest silence: a page takes a longer one for a dead line."""

TRY_AGAIN = 1011

log = logging.getLogger(__name__)


class RunSocket(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Sends what happens to a run after `?after=<revision>`; hears nothing."""

    channel_layer_alias = None
    task: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Accept, and start following."""
        await self.accept()
        query = parse_qs(self.scope["query_string"].decode("latin-1"))
        after = query.get("after", ["0"])[0]
        run_id = self.scope["url_route"]["kwargs"]["run_id"]
        self.task = asyncio.create_task(self._follow(run_id, int(after) if after.isdecimal() else 0))

    async def disconnect(self, code: int) -> None:
        """Stop following."""
        if self.task:
            self.task.cancel()
            await asyncio.wait([self.task])

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Ignore what a page says: it acts by ordinary requests."""

    async def _follow(self, run_id: str, cursor: int) -> None:
        try:
            await self._tell(run_id, cursor)
        except page.PageGone:
            return
        except Exception:
            log.exception("The socket of eval run %s failed.", run_id)
            await self.close(code=TRY_AGAIN)
        else:
            await self.close()

    async def _tell(self, run_id: str, cursor: int) -> None:
        """Send what is newer than the cursor until the run has ended."""
        said_at = time.monotonic()
        async with listen() as ring:
            while True:
                message = await db.read(changes, run_id, cursor)
                if message is not None:
                    cursor = message["cursor"]
                    await page.send(self, message)
                    said_at = time.monotonic()
                    if message["type"] == "end":
                        return
                    await asyncio.sleep(PAUSE_S)
                elif time.monotonic() - said_at > BEAT_S:
                    await page.send(self, {"type": "beat"})
                    said_at = time.monotonic()
                await ring.wait()


def changes(run_id: str, cursor: int) -> dict[str, Any] | None:
    """Return what a page that knows the run up to a revision does not know; None when that is nothing.

    Keys: type (`run`, or `end` when nothing follows), cursor, rows [{id, html}], attempts (keys of those that
    changed), summary (HTML).
    """
    run = EvalRun.objects.select_related("evalset").filter(pk=run_id).first()
    if run is None:
        return {"type": "end", "cursor": cursor, "rows": [], "attempts": [], "summary": ""}
    if run.revision <= cursor and run.active:
        return None
    changed = report.changed_since(run, cursor)
    rows = report.rows_of(run, changed)
    return {
        "type": "run" if run.active else "end",
        "cursor": run.revision,
        "rows": [{"id": row.dom_id, "html": _row(run, row)} for row in rows],
        "attempts": [one.pk for row in rows for one in row.attempts if one.revision > cursor],
        "summary": render_to_string("devui/evals/run.html#summary", report.run_context(run)),
    }


def _row(run: EvalRun, row: report.CaseRow) -> str:
    return render_to_string("devui/evals/row.html", {"row": row, "run": run})


websocket_urlpatterns: list[URLPattern] = [
    path("ws/evals/runs/<str:run_id>/", RunSocket.as_asgi(), name="eval-run-socket"),
]
