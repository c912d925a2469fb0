"""An app of a remote server, as pages and the API see it (`sessions_app.runs.runtime_client.RuntimeClient`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx

from devui.remote import dialects
from devui.remote.server import RemoteServer
from devui.supervisor.frame_feeds import FrameFeeds
from sessions_app.errors import BadInput
from sessions_app.models import Run
from sessions_app.runs import lifecycle
from sessions_app.runs.runtime_client import Frame, RuntimeSocket
from sessions_app.store import units_of_work

HEALTHY = {"state": "ready"}

UNSUPPORTED = {
    "/devui/seen": "what its models see",
    "/devui/memory/search": "what an agent would recall",
    "/devui/evals": "eval runs",
}
"""What pages ask of runtimes and no remote server tells."""


class RemoteClient:
    """Hands over runs, watches and cancels them, and answers ADK's paths."""

    def __init__(self, server: RemoteServer, app_name: str, feeds: FrameFeeds) -> None:
        self._server = server
        self._app_name = app_name
        self._feeds = feeds

    async def start_run(self, run_id: str) -> None:
        """Carry out a queued run. One that has ended meanwhile, or that another process has, is left alone."""
        await self._server.take_run(run_id)

    async def cancel_run(self, run_id: str) -> None:
        """Cancel a run. Returns when its row says how it ended.

        Raises:
            RuntimeUnavailable: another process has it, which does not react.
        """
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
        """Yield a run's frames with n > `after`, from memory and then as they come, until `end`."""
        frames = self._server.runs.frames(run_id)
        return frames.follow(after) if frames is not None else self._feeds.follow(run_id, after)

    def open(
        self, method: str, path: str, *, headers: Mapping[str, str], content: bytes
    ) -> AbstractAsyncContextManager[httpx.Response]:
        """Open a request to ADK's paths, which the remote server answers.

        Raises:
            RuntimeUnavailable: it does not answer.
        """
        return self._open(method, path, headers, content)

    @asynccontextmanager
    async def open_socket(self, path: str) -> AsyncIterator[RuntimeSocket]:
        """Open a live run; `path` is that of ADK's socket, with its query. It opens when its turn has come.

        Raises:
            BadInput: the server refuses it, or its ADK has no live runs.
            SessionMissing: the server has no such session.
            NotReached: it does not answer.
        """
        call, run = await self._server.paths.call(self._app_name, path.partition("?")[2])
        async with call.open(run) as socket:
            yield socket

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Answer what of the `/devui/…` endpoints a remote server can be asked for.

        Raises:
            NotReached: it does not answer.
            BadInput: it cannot be asked for that.
        """
        if path == "/devui/health":
            await self._server.describe(self._app_name)
            return HEALTHY
        if path == "/devui/run-config":
            return {"problems": _config_problems(self._server.copies.dialect, dict(body or {}))}
        raise BadInput(
            f"{self._server.http.url} cannot be asked for {UNSUPPORTED.get(path, 'that')}:"
            " ADK's REST has no path for it.",
            hint="Run the agent in a folder of this server for that, where its language is Python.",
        )

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, headers: Mapping[str, str], content: bytes
    ) -> AsyncIterator[httpx.Response]:
        response = await self._server.paths.answer(self._app_name, method, path, headers, content)
        try:
            yield response
        finally:
            await response.aclose()


def _config_problems(dialect: dialects.Dialect, request: dict[str, Any]) -> dict[str, str]:
    """Return what is wrong with a RunConfig, by its fields: those that cannot be told."""
    config = request.get("run_config") or {}
    problems = {}
    for name, value in config.items():
        try:
            dialects.run_body(dialect, "", "", "", {"run_config": {name: value}})
        except BadInput as error:
            problems[name] = error.message
    return problems
