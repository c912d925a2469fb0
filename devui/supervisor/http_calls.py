"""Talking to a runtime process over HTTP. What goes wrong on the way is said in words, never as a traceback."""

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

DEATH_S = 3.0
"""Seconds to wait for the news of a process's end before its silence is explained without it."""

AGAIN = "Send it once more: a new process is started. The server's log has its output."
CORRECT = "Start the server again with what can be."

OWN_HEADERS = frozenset(
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
"""Headers that concern one connection, and those by which the web process has judged the caller already."""


async def call(child: Child, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """Call a `/devui/…` endpoint and return its JSON. The process is not ended meanwhile for want of use.

    Raises:
        DevUIError: what the process answered, or that it did not.
    """
    with child.used():
        return await ask(child, method, path, body)


async def ask(child: Child, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """Call a `/devui/…` endpoint as `call` does, without keeping the process for it.

    Raises:
        DevUIError: what the process answered, or that it did not.
    """
    async with _explained(child):
        response = await child.http.request(method, path, json=body)
    if response.is_success:
        return response.json()
    raise _answered(response)


@asynccontextmanager
async def open_stream(
    child: Child, method: str, path: str, headers: Mapping[str, str], content: bytes
) -> AsyncIterator[httpx.Response]:
    """Open a request to ADK's server. `path` is percent-encoded as it came in, with its query.

    Raises:
        RuntimeUnavailable: the process died, also while the answer is read.
    """
    kept = {name: value for name, value in headers.items() if name.lower() not in OWN_HEADERS}
    url = child.http.base_url.copy_with(raw_path=_quoted(path).encode())
    request = child.http.build_request(method, url, headers=kept, content=content)
    with child.used():
        async with _explained(child):
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
        """Send a message. One to a socket that is closed is lost."""
        with suppress(ConnectionClosed):
            await self._connection.send(message)

    async def messages(self) -> AsyncIterator[str | bytes]:
        """Yield what the server sends until it closes the socket.

        Raises:
            RuntimeUnavailable: the process died.
        """
        try:
            while True:
                yield await self._connection.recv()
        except ConnectionClosed as closed:
            if closed.rcvd is None:
                raise await _explanation(self._child) from closed
            self.closed = closed.rcvd.code, closed.rcvd.reason


@asynccontextmanager
async def open_socket(child: Child, path: str) -> AsyncIterator[Socket]:
    """Open a socket to ADK's server. `path` is percent-encoded, with its query.

    Raises:
        BadInput: the server refuses it.
        RuntimeUnavailable: the process died before it answered.
    """
    with child.used():
        if not child.is_alive:
            raise _gone(child)
        connection = child.connect(_quoted(path))
        try:
            opened = await connection
        except InvalidStatus as refusal:
            raise BadInput(
                f"ADK's own server refuses the socket ({refusal.response.status_code}).",
                hint="Name app_name, user_id and session_id in the query; modalities are TEXT, AUDIO or VIDEO.",
            ) from refusal
        except (OSError, InvalidHandshake, ConnectionClosed) as error:
            raise await _explanation(child) from error
        try:
            yield Socket(child, opened)
        finally:
            await opened.close()


async def frames(child: Child, run_id: str, after: int) -> AsyncIterator[Frame]:
    """Yield the frames of a run as the process sends them.

    Raises:
        DevUIError: the process does not know the run, or is gone.
    """
    path = f"/devui/runs/{run_id}/stream?after={after}"
    async with open_stream(child, "GET", path, {}, b"") as response:
        if not response.is_success:
            await response.aread()
            raise _answered(response)
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


@asynccontextmanager
async def _explained(child: Child) -> AsyncIterator[None]:
    if not child.is_alive:
        raise _gone(child)
    import httpx

    try:
        yield
    except httpx.TransportError as error:
        raise await _explanation(child) from error


async def _explanation(child: Child) -> RuntimeUnavailable:
    """Return why a process does not answer, when its end has had the time to become known."""
    with suppress(TimeoutError):
        await asyncio.wait_for(child.exited.wait(), DEATH_S)
    return _gone(child)


def _quoted(path: str) -> str:
    """Return a path that is percent-encoded already without what cannot stand in a request's first line."""
    return quote(path, safe="/%?&=:@!$'()*+,;~-._")


def _gone(child: Child) -> RuntimeUnavailable:
    if child.is_alive:
        return RuntimeUnavailable(f"The process of agent {child.app_name!r} does not answer.", hint=AGAIN)
    return RuntimeUnavailable(child.death(), hint=CORRECT if child.refusal else AGAIN)


def _answered(response: httpx.Response) -> DevUIError:
    """Return the error a process answered: of the class that has the code, if a message and a hint make one."""
    try:
        body = response.json()
    except ValueError:
        body = {}
    if not isinstance(body, dict):
        body = {}
    message = str(body.get("detail") or f"The agent's process answered {response.status_code}.")
    known = {
        error.code: error
        for error in _all_errors(DevUIError)
        if "code" in vars(error) and error.__init__ is DevUIError.__init__
    }
    named = known.get(str(body.get("code")), RuntimeUnavailable)
    return named(message, hint=str(body.get("hint") or "The server's log has its output."))


def _all_errors(base: type[DevUIError]) -> list[type[DevUIError]]:
    return [base, *(found for error in base.__subclasses__() for found in _all_errors(error))]
