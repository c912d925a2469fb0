"""Sockets of evals pages: changes of a run as JSON envelopes of HTML, and changes of an evalset's file."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from django.template.loader import render_to_string
from django.urls import URLPattern

from evals_app.analysis import case_matrix
from evals_app.files import library
from evals_app.models import EvalRun, EvalSet
from sessions_app.agents.folder import configured_folder
from sessions_app.live.broadcast import Broadcast
from sessions_app.live.page_socket import Close, PageSocket, to_json
from sessions_app.lookup import parse_number
from sessions_app.roles import READ
from sessions_app.routes import socket_route
from sessions_app.store.database import units_of_work

PAUSE_S = 0.15
"""Minimum time between two messages: a fast run changes many rows at once."""

BEAT_S = 15.0
"""Maximum time without a message: after a longer one a page reconnects."""

CHECK_S = 0.7
"""Seconds between two checks of an evalset's file while a page shows it: any program may write it."""


class RunSocket(PageSocket):
    """Sends changes of a run after `?after=<revision>`."""

    beat_s = BEAT_S

    async def send_changes(self, route: Mapping[str, Any], query: Mapping[str, str]) -> Close:
        """Send changes until the run has ended."""
        run_id, after = route["run_id"], query.get("after", "")
        cursor = parse_number(after) or 0
        last_sent = time.monotonic()
        async with RunBroadcast.join(run_id, partial(RunBroadcast, run_id)) as broadcast:
            await broadcast.wait_for_fresh_view()
            while True:
                number = broadcast.number
                message = await broadcast.read_once(cursor, changes, run_id, cursor)
                if message is not None:
                    await self.send_text(broadcast.render_once(cursor, partial(to_json, message)))
                    cursor = message["cursor"]
                    last_sent = time.monotonic()
                    if message["type"] == "end":
                        return Close()
                    await asyncio.sleep(PAUSE_S)
                if not await broadcast.wait_for_view(number, self.beat_s - (time.monotonic() - last_sent)):
                    await self.send_text(to_json({"type": "beat"}))
                    last_sent = time.monotonic()


class RunBroadcast(Broadcast[tuple[int, str] | None]):
    """Broadcasts the revision and status of a run; None if the run does not exist."""

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id

    async def read_view(self) -> tuple[int, str] | None:
        """Read the revision and the status."""
        return await units_of_work.read(
            lambda: EvalRun.objects.filter(pk=self.run_id).values_list("revision", "status").first()
        )


class EvalsetSocket(PageSocket):
    """Sends a message when an evalset's file differs from `?digest=`."""

    async def send_changes(self, route: Mapping[str, Any], query: Mapping[str, str]) -> Close:
        """Send a message for each change of the file. Close at once if the evalset has no file."""
        path, digest = await units_of_work.read(_find_file, route["pk"]), query.get("digest", "")
        stamp: tuple[int, int] | None = (-1, -1)
        was_gone = False
        last_sent = time.monotonic()
        while path is not None:
            now = await asyncio.to_thread(_file_stamp, path)
            if now != stamp:
                stamp = now
                file_state = await units_of_work.write(_refresh_file, route["pk"])
                if file_state["digest"] != digest or file_state["gone"] != was_gone:
                    digest, was_gone = file_state["digest"], file_state["gone"]
                    await self.send_text(to_json({"type": "file", **file_state}))
                    last_sent = time.monotonic()
            if time.monotonic() - last_sent > BEAT_S:
                await self.send_text(to_json({"type": "beat"}))
                last_sent = time.monotonic()
            await asyncio.sleep(CHECK_S)
        return Close()


def _find_file(pk: int) -> Path | None:
    evalset, folder = EvalSet.objects.filter(pk=pk).first(), configured_folder()
    return library.evalset_path(folder, evalset) if evalset and folder else None


def _file_stamp(path: Path) -> tuple[int, int] | None:
    """Return size and modification time of a file; None if it is gone."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns


def _refresh_file(pk: int) -> dict[str, Any]:
    evalset, folder = EvalSet.objects.get(pk=pk), configured_folder()
    if folder is not None:
        evalset = library.refresh_evalset(folder, evalset)
    return {"digest": evalset.digest, "gone": evalset.gone}


def changes(run_id: str, cursor: int, *, page_size: int = case_matrix.PAGE) -> dict[str, Any] | None:
    """Return the changes of a run after a revision; None without any.

    Keys: type (`run`, or `end` when no change follows), cursor, rows [{id, html}], many (more cases changed than a page
    shows: rows is empty and the page requests its own), attempts (keys of changed ones), summary (HTML).
    """
    run = EvalRun.objects.select_related("evalset").filter(pk=run_id).first()
    if run is None:
        return {"type": "end", "cursor": cursor, "rows": [], "many": False, "attempts": [], "summary": ""}
    if run.revision <= cursor and run.active:
        return None
    changed = case_matrix.changed_since(run, cursor)
    is_many = len(changed) > page_size
    rows = [] if is_many else case_matrix.read_case_rows(run, changed)
    return {
        "type": "run" if run.active else "end",
        "cursor": run.revision,
        "rows": [{"id": row.dom_id, "html": _render_row(run, row)} for row in rows],
        "many": is_many,
        "attempts": list(run.attempts.filter(revision__gt=cursor).values_list("pk", flat=True)),
        "summary": render_to_string("devui/evals/run.html#summary", case_matrix.run_context(run)),
    }


def _render_row(run: EvalRun, row: case_matrix.MatrixRow) -> str:
    return render_to_string("devui/evals/run_case.html", {"row": row, "run": run})


websocket_urlpatterns: list[URLPattern] = [
    socket_route("ws/evals/runs/<str:run_id>/", RunSocket.as_asgi(), READ, "eval-run-socket"),
    socket_route("ws/evals/evalsets/<int:pk>/", EvalsetSocket.as_asgi(), READ, "evalset-socket"),
]
