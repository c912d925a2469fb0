"""HTTP calls to a runtime process, directly or through a worker. Failures are explained, never shown as a traceback.

Every call raises `RuntimeUnavailable` if the process does not answer or dies, or the error that the process returned.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from devui.supervisor.upstream import Upstream
from sessions_app.runs.runtime_client import Frame
from sessions_app.store.errors import BadInput, DevUIError, RuntimeUnavailable

if TYPE_CHECKING:
    import httpx

EXIT_NOTICE_S = 3.0
"""Seconds to wait for the notice of a process's end before its silence is explained without it."""

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


class Peer(Protocol):
    """A process that answers: a runtime process, or a worker that forwards to one.

    Attributes:
        upstream: its address.
        exited: set when nothing more is expected of it, so that its silence can be explained.
    """

    upstream: Upstream
    exited: asyncio.Event

    @property
    def is_alive(self) -> bool:
        """Tell whether it is running."""

    def hold(self) -> AbstractContextManager[None]:
        """Count a request, so that it is not ended as idle meanwhile."""

    def explain_silence(self) -> RuntimeUnavailable:
        """Return the error that says why it does not answer."""


async def call(peer: Peer, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """Call a `/devui/…` endpoint and return its JSON. The process is not ended as idle meanwhile."""
    with peer.hold():
        return await call_without_hold(peer, method, path, body)


async def call_without_hold(peer: Peer, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """Call a `/devui/…` endpoint like `call`, without keeping the process from being ended as idle."""
    async with _explain_errors(peer):
        response = await peer.upstream.http.request(method, path, json=body)
    if response.is_success:
        return response.json()
    raise _read_error(response)


@asynccontextmanager
async def open_stream(
    peer: Peer, method: str, path: str, headers: Mapping[str, str], content: bytes
) -> AsyncIterator[httpx.Response]:
    """Send a request to ADK's server and stream the response. `path` is percent-encoded, with its query."""
    forwarded_headers = {
        name: value for name, value in headers.items() if name.lower() not in UNFORWARDED_HEADERS
    }
    http = peer.upstream.http
    base = http.base_url
    url = base.copy_with(raw_path=base.raw_path.rstrip(b"/") + _quote_path(path).encode())
    request = http.build_request(method, url, headers=forwarded_headers, content=content)
    with peer.hold():
        async with _explain_errors(peer):
            response = await http.send(request, stream=True)
            try:
                yield response
            finally:
                await response.aclose()


class Socket:
    """An open socket to ADK's server (`sessions_app.runs.runtime_client.RuntimeSocket`)."""

    def __init__(self, peer: Peer, connection: ClientConnection) -> None:
        self.closed: tuple[int, str] | None = None
        self._peer = peer
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
                raise await _await_explanation(self._peer) from closed
            self.closed = closed.rcvd.code, closed.rcvd.reason


@asynccontextmanager
async def open_socket(peer: Peer, path: str, headers: Mapping[str, str]) -> AsyncIterator[Socket]:
    """Open a socket to ADK's server. `path` is percent-encoded, with its query.

    Raises:
        BadInput: the server refuses the socket.
        RuntimeUnavailable: the process died before it answered.
    """
    with peer.hold():
        if not peer.is_alive:
            raise peer.explain_silence()
        try:
            opened = await peer.upstream.connect(_quote_path(path), headers)
        except InvalidStatus as refusal:
            raise BadInput(
                f"ADK's own server refuses the socket ({refusal.response.status_code}).",
                hint="Name app_name, user_id and session_id in the query; modalities are TEXT, AUDIO or VIDEO.",
            ) from refusal
        except (OSError, InvalidHandshake, ConnectionClosed) as error:
            raise await _await_explanation(peer) from error
        try:
            yield Socket(peer, opened)
        finally:
            await opened.close()


async def stream_frames(peer: Peer, run_id: str, after: int) -> AsyncIterator[Frame]:
    """Yield the frames of a run as the process sends them."""
    path = f"/devui/runs/{run_id}/stream?after={after}"
    async with open_stream(peer, "GET", path, {}, b"") as response:
        if not response.is_success:
            await response.aread()
            raise _read_error(response)
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


@asynccontextmanager
async def _explain_errors(peer: Peer) -> AsyncIterator[None]:
    if not peer.is_alive:
        raise peer.explain_silence()
    import httpx

    try:
        yield
    except httpx.TransportError as error:
        raise await _await_explanation(peer) from error


async def _await_explanation(peer: Peer) -> RuntimeUnavailable:
    """Return why a process does not answer, after waiting for the notice of its end."""
    with suppress(TimeoutError):
        await asyncio.wait_for(peer.exited.wait(), EXIT_NOTICE_S)
    return peer.explain_silence()


def _quote_path(path: str) -> str:
    """Encode the characters of a percent-encoded path that a request line cannot contain."""
    return quote(path, safe="/%?&=:@!$'()*+,;~-._")


def _read_error(response: httpx.Response) -> DevUIError:
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
