"""The HTTP listener of a worker: forwards requests and sockets of web processes to its runtime processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hmac import compare_digest
from typing import Any
from urllib.parse import unquote

from devui.runtime.config import TOKEN_HEADER
from devui.supervisor import Supervisor, http_calls
from devui.supervisor.runtime_process import RuntimeChild
from devui.workers.endpoint import APPS, END, PROCESSES, worker_token
from sessions_app.api.live import relay_socket
from sessions_app.runs.runtime_client import RuntimeSocket, Sender
from sessions_app.store.errors import DevUIError, Forbidden, NotFound

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

NO_TOKEN = Forbidden(
    "This worker answers only to the web processes of its installation.",
    hint="Give all of them the same DEVUI_SECRET_KEY.",
)

HOP_BY_HOP_HEADERS = frozenset({b"connection", b"transfer-encoding", b"keep-alive"})
"""Headers of a response that belong to a single connection."""


class WorkerListener:
    """ASGI application of a worker."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._token = worker_token(supervisor.id).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with the token; refuse all others before their body is read."""
        is_socket = scope["type"] == "websocket"
        if not self._has_token(scope):
            await (_deny_socket(receive, send) if is_socket else _send_problem(send, NO_TOKEN))
            return
        if is_socket:
            await self._answer_socket(scope, receive, send)
            return
        answer_task = asyncio.ensure_future(self._answer_request(scope, await _read_body(receive), send))
        disconnect_task = asyncio.ensure_future(_await_disconnect(receive))
        try:
            await asyncio.wait({answer_task, disconnect_task}, return_when=asyncio.FIRST_COMPLETED)
            if answer_task.done():
                answer_task.result()
        finally:  # a caller that leaves cancels the request at the process
            for task in (answer_task, disconnect_task):
                task.cancel()
            await asyncio.gather(answer_task, disconnect_task, return_exceptions=True)

    async def _answer_request(self, scope: Scope, body: bytes, send: Send) -> None:
        """Answer a request. If the process dies while streaming, the response ends early."""
        has_begun = False

        async def begin(message: dict[str, Any]) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            if scope["method"] == "POST" and (runtime_id := _process_to_end(scope)):
                ended = await self._supervisor.end_process(runtime_id, json.loads(body)["why"])
                await _send_json(send, 200, {"ended": ended})
            else:
                child, path = await self._find_process(scope)
                await _forward_request(child, scope, path, body, begin)
        except DevUIError as error:
            if not has_begun:
                await _send_problem(send, error)

    async def _answer_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await relay_socket(self._open_socket(scope), receive, send)

    @asynccontextmanager
    async def _open_socket(self, scope: Scope) -> AsyncIterator[RuntimeSocket]:
        child, path = await self._find_process(scope)
        async with http_calls.open_socket(child, path, _sender_headers(scope)) as upstream:
            yield upstream

    def _has_token(self, scope: Scope) -> bool:
        name = TOKEN_HEADER.lower().encode()
        tokens = [value for header, value in scope["headers"] if header.lower() == name]
        return len(tokens) == 1 and compare_digest(tokens[0], self._token)

    async def _find_process(self, scope: Scope) -> tuple[RuntimeChild, str]:
        """Return the process that a request is for, and its path there with the query.

        Raises:
            NotFound: this worker has no such app or process.
        """
        path = scope["raw_path"].decode("latin-1")
        query = scope["query_string"].decode("latin-1")
        kind = APPS if path.startswith(APPS) else PROCESSES
        name, _, process_path = path.removeprefix(kind).partition("/")
        child: RuntimeChild | None
        if kind == APPS:
            child = await self._supervisor.child(unquote(name))
        else:
            child = self._supervisor.find_child(name)
        if child is None:
            raise NotFound(f"This worker has no process {name!r}.", hint="It has ended.")
        return child, f"/{process_path}?{query}" if query else f"/{process_path}"


def _process_to_end(scope: Scope) -> str:
    """Return the process that a request ends; empty: it is another request."""
    path: str = scope["raw_path"].decode("latin-1")
    runtime_id = path.removeprefix(PROCESSES).removesuffix(END)
    return runtime_id if path == f"{PROCESSES}{runtime_id}{END}" else ""


def _sender_headers(scope: Scope) -> dict[str, str]:
    return Sender.of({name.decode(): value.decode("latin-1") for name, value in scope["headers"]}).headers()


async def _forward_request(child: RuntimeChild, scope: Scope, path: str, body: bytes, send: Send) -> None:
    """Send a request to a process and stream its response.

    Raises:
        RuntimeUnavailable: the process did not answer, or died.
    """
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    async with http_calls.open_stream(child, scope["method"], path, headers, body) as response:
        answer_headers = [pair for pair in response.headers.raw if pair[0].lower() not in HOP_BY_HOP_HEADERS]
        await send({"type": "http.response.start", "status": response.status_code, "headers": answer_headers})
        async for chunk in response.aiter_raw():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _read_body(receive: Receive) -> bytes:
    """Return the body of a web process's request, which has limited it."""
    chunks: list[bytes] = []
    while True:
        message = await receive()
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(chunks)


async def _deny_socket(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close"})


async def _await_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_problem(send: Send, error: DevUIError) -> None:
    await _send_json(send, error.status, {"detail": error.message, "code": error.code, "hint": error.hint})


async def _send_json(send: Send, status: int, content: dict[str, Any]) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(content).encode()})
