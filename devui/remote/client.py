"""Client of a remote server's app for pages and API (`sessions_app.runs.runtime_client.RuntimeClient`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from devui.remote.dialects import Dialect
from devui.remote.server import RemoteServer
from devui.supervisor.frame_feeds import FrameFeeds
from sessions_app.runs import lifecycle
from sessions_app.runs.runtime_client import Frame, RuntimeSocket, Sender
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput
from sessions_app.store.models import Run

HEALTHY = {"state": "ready"}

UNSUPPORTED = {
    "/devui/seen": "previews of model requests",
    "/devui/memory/search": "searches in memory",
    "/devui/evals": "eval runs",
    "/devui/evals/variants": "variants of agents",
    "/devui/playground/check": "model calls that are tried again",
    "/devui/tools/call": "calls of single tools",
}
"""Endpoints of runtimes that remote servers do not have, and their subjects."""


class RemoteClient:
    """Starts, streams and cancels runs, and answers ADK's paths."""

    def __init__(self, server: RemoteServer, app_name: str, feeds: FrameFeeds) -> None:
        self._server = server
        self._app_name = app_name
        self._feeds = feeds

    async def start_run(self, run_id: str) -> None:
        """Execute a queued run. A run that has ended, or that another process owns, is left alone."""
        await self._server.take_run(run_id)

    async def cancel_run(self, run_id: str) -> None:
        """Cancel a run. Returns when its row contains its end."""
        if run_id not in self._server.runs.active and await units_of_work.write(
            lifecycle.end_queued, run_id, Run.Status.CANCELLED
        ):
            return
        if not await units_of_work.write(lifecycle.request_cancel, run_id):
            return
        if run_id in self._server.runs.active:
            await self._server.runs.cancel(run_id)
        else:
            await self._feeds.await_foreign_cancel(run_id)

    def stream(self, run_id: str, after: int = 0) -> AsyncIterator[Frame]:
        """Yield a run's frames with n > `after`, stored ones first, until `end`."""
        frames = self._server.runs.frames(run_id)
        return frames.follow(after) if frames is not None else self._feeds.follow(run_id, after)

    @asynccontextmanager
    async def open(
        self, method: str, path: str, *, headers: Mapping[str, str], content: bytes
    ) -> AsyncIterator[httpx.Response]:
        """Send a request to ADK's paths, which the remote server answers."""
        response = await self._server.paths.answer(self._app_name, method, path, headers, content)
        try:
            yield response
        finally:
            await response.aclose()

    @asynccontextmanager
    async def open_socket(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[RuntimeSocket]:
        """Open a live run when its turn has come; `path` is the path of ADK's socket with its query."""
        call, run = await self._server.paths.call(
            self._app_name, path.partition("?")[2], Sender.of(headers).person
        )
        async with call.open(run) as socket:
            yield socket

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Answer those `/devui/…` endpoints that a remote server supports."""
        if path == "/devui/health":
            await self._server.describe(self._app_name)
            return HEALTHY
        if path == "/devui/run-config":
            config = dict(body or {}).get("run_config") or {}
            return {"problems": _config_problems(self._server.copies.dialect, config)}
        raise BadInput(
            f"{self._server.http.url} does not provide {UNSUPPORTED.get(path, 'this')}:"
            " ADK's REST has no path for it.",
            hint="Run the agent in a folder of this server for that, where its language is Python.",
        )


def _config_problems(dialect: Dialect, config: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a RunConfig that the server does not accept, each with a message."""
    problems = {}
    for name, value in config.items():
        try:
            dialect.run_body("", "", "", {"run_config": {name: value}})
        except BadInput as error:
            problems[name] = error.message
    return problems
