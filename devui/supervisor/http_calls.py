"""HTTP calls to a runtime process. Failures are explained, never shown as a traceback.

Every call raises `RuntimeUnavailable` if the process does not answer or dies, or the error that the process returned.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from devui.supervisor.runtime_process import Child
from sessions_app.errors import BadInput, DevUIError, RuntimeUnavailable
from sessions_app.runs.runtime_client import Frame

if TYPE_CHECKING:
    import httpx

EXIT_NOTICE_S = 3.0
"""Seconds to wait for the notice of a process's end before its silence is explained without it."""

RETRY_HINT = "Send it again: a new process will be started. The server's log has the output of the old one."
CONFIG_HINT = "Correct the setting and restart the server."

UNFORWARDED_HEADERS = frozenset(
    {
        "connection",
        "content-length",
        "forwarded",
        "host",
        "keep-alive",
        "origin",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-devui-token",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
    }
)
"""Headers of a single connection, and those by which the web process has checked the caller already."""


async def call(child: Child, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """Call a `/devui/…` endpoint and return its JSON. The process is not ended as idle meanwhile."""
    with child.hold():
        return await call_without_hold(child, method, path, body)


async def call_without_hold(
    child: Child, method: str, path: str, body: Mapping[str, Any] | None = None
) -> Any:
    """Call a `/devui/…` endpoint like `call`, without keeping the process from being ended as idle."""
    async with _explain_errors(child):
        response = await child.http.request(method, path, json=body)
    if response.is_success:
        return response.json()
    raise _error_of_response(response)


@asynccontextmanager
async def open_stream(
    child: Child, method: str, path: str, headers: Mapping[str, str], content: bytes
) -> AsyncIterator[httpx.Response]:
    """Send a request to ADK's server and stream the response. `path` is percent-encoded, with its query."""
    forwarded_headers = {
        name: value for name, value in headers.items() if name.lower() not in UNFORWARDED_HEADERS
    }
    url = child.http.base_url.copy_with(raw_path=_quote_path(path).encode())
    request = child.http.build_request(method, url, headers=forwarded_headers, content=content)
    with child.hold():
        async with _explain_errors(child):
            response = await child.http.send(request, stream=True)
            try:
                yield response
            finally:
                await response.aclose()


class Socket:
    """An open socket to ADK's server (`sessions_app.runs.runtime_client.RuntimeSocket`)."""

    def __init__(self, child: Child, connection: ClientConnection) -> None:
        self.closed: tuple[int, str] | None = None
        self._child = child
        self._connection = connection

    async def send(self, message: str | bytes) -> None:
        """Send a message. A message to a closed socket is dropped."""
        with suppress(ConnectionClosed):
            await self._connection.send(message)

    async def messages(self) -> AsyncIterator[str | bytes]:
        """Yield the server's messages until the socket is closed."""
        try:
            while True:
                yield await self._connection.recv()
        except ConnectionClosed as closed:
            if closed.rcvd is None:
                raise await _await_explanation(self._child) from closed
            self.closed = closed.rcvd.code, closed.rcvd.reason


@asynccontextmanager
async def open_socket(child: Child, path: str) -> AsyncIterator[Socket]:
    """Open a socket to ADK's server. `path` is percent-encoded, with its query.

    Raises:
        BadInput: the server refuses the socket.
        RuntimeUnavailable: the process died before it answered.
    """
    with child.hold():
        if not child.is_alive:
            raise _unavailable(child)
        connection = child.connect(_quote_path(path))
        try:
            opened = await connection
        except InvalidStatus as refusal:
            raise BadInput(
                f"ADK's own server refuses the socket ({refusal.response.status_code}).",
                hint="Name app_name, user_id and session_id in the query; modalities are TEXT, AUDIO or VIDEO.",
            ) from refusal
        except (OSError, InvalidHandshake, ConnectionClosed) as error:
            raise await _await_explanation(child) from error
        try:
            yield Socket(child, opened)
        finally:
            await opened.close()


async def stream_frames(child: Child, run_id: str, after: int) -> AsyncIterator[Frame]:
    """Yield the frames of a run as the process sends them."""
    path = f"/devui/runs/{run_id}/stream?after={after}"
    async with open_stream(child, "GET", path, {}, b"") as response:
        if not response.is_success:
            await response.aread()
            raise _error_of_response(response)
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


@asynccontextmanager
async def _explain_errors(child: Child) -> AsyncIterator[None]:
    if not child.is_alive:
        raise _unavailable(child)
    import httpx

    try:
        yield
    except httpx.TransportError as error:
        raise await _await_explanation(child) from error


async def _await_explanation(child: Child) -> RuntimeUnavailable:
    """Return why a process does not answer, after waiting for the notice of its end."""
    with suppress(TimeoutError):
        await asyncio.wait_for(child.exited.wait(), EXIT_NOTICE_S)
    return _unavailable(child)


def _quote_path(path: str) -> str:
    """Encode the characters of a percent-encoded path that a request line cannot contain."""
    return quote(path, safe="/%?&=:@!$'()*+,;~-._")


def _unavailable(child: Child) -> RuntimeUnavailable:
    if child.is_alive:
        return RuntimeUnavailable(
            f"The process of agent {child.app_name!r} does not answer.", hint=RETRY_HINT
        )
    return RuntimeUnavailable(child.describe_end(), hint=CONFIG_HINT if child.refusal else RETRY_HINT)


def _error_of_response(response: httpx.Response) -> DevUIError:
    """Return the error in a process's response, of the class with its code if message and hint suffice to create it."""
    try:
        body = response.json()
    except ValueError:
        body = {}
    if not isinstance(body, dict):
        body = {}
    message = str(body.get("detail") or f"The agent's process answered {response.status_code}.")
    classes = {
        error.code: error
        for error in _error_classes(DevUIError)
        if "code" in vars(error) and error.__init__ is DevUIError.__init__
    }
    error_class = classes.get(str(body.get("code")), RuntimeUnavailable)
    return error_class(message, hint=str(body.get("hint") or "The server's log has its output."))


def _error_classes(base: type[DevUIError]) -> list[type[DevUIError]]:
    return [base, *(subclass for error in base.__subclasses__() for subclass in _error_classes(error))]
