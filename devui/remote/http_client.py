"""HTTP client of one remote server, with limits, without redirects, and with clear errors.

Requests go only to the address of the command line. Redirects, proxies and credentials of the environment are not
used, and error messages contain no password. Every request may raise `NotReached`.
"""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from typing_extensions import override
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from devui.remote.address import RemoteAddress
from sessions_app.store.errors import RuntimeUnavailable

CONNECT_TIMEOUT_S = 5.0
RESPONSE_TIMEOUT_S = 60.0
"""Seconds of silence after which a request fails. Runs have no such limit, because a model may think for long."""

MAX_RESPONSE = 8_000_000
MAX_SESSION = 256_000_000
MAX_FRAME = 64_000_000
"""Most bytes of a response, of a whole session, and of one frame of a stream; larger ones are refused."""

MAX_REFUSAL = 100_000
"""Most bytes that are read of an error response."""

PING_S = 20.0
"""Seconds of silence until the server of a socket is pinged, and seconds that it has to answer."""

CLOSE_S = 1.0
"""Seconds that the server has to confirm the close of a socket."""

KEEP_ALIVE = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
"""TCP keepalive: the system detects a dead peer even while a run is silent."""

USER_AGENT = "devui"


class NotReached(RuntimeUnavailable):
    """The remote server cannot be reached, breaks off, redirects, or sends too much."""


@dataclass(frozen=True, slots=True)
class RemoteResponse:
    """A response that was read completely."""

    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def is_success(self) -> bool:
        """Tell whether the status is 2xx."""
        return 200 <= self.status < 300


class RemoteHttpClient:
    """Client of one remote server. `url` is shown in messages; `base` is the root of its API."""

    def __init__(self, address: RemoteAddress) -> None:
        self.address = address
        self.base = address.url
        timeout = httpx.Timeout(RESPONSE_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        self._http = httpx.AsyncClient(
            headers={
                "Accept-Encoding": "identity",
                "User-Agent": USER_AGENT,
                **address.authorization_headers(),
            },
            timeout=timeout,
            follow_redirects=False,
            trust_env=False,
            transport=httpx.AsyncHTTPTransport(
                trust_env=False, limits=httpx.Limits(max_connections=200), socket_options=KEEP_ALIVE
            ),
        )

    @property
    def url(self) -> str:
        """The address, without an account."""
        return self.address.url

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        max_bytes: int = MAX_RESPONSE,
        seconds: float = RESPONSE_TIMEOUT_S,
    ) -> RemoteResponse:
        """Send a request and read the whole response.

        Args:
            path: percent-encoded, relative to the address.
            body: sent as JSON, unless None.
            content: sent unchanged.
        """
        async with self.open(
            method, path, body, content=content, headers=headers, seconds=seconds
        ) as response:
            return await self.read(response, max_bytes)

    @asynccontextmanager
    async def open(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = RESPONSE_TIMEOUT_S,
    ) -> AsyncIterator[httpx.Response]:
        """Send a request and stream the response. With `seconds` None it may be silent for any time."""
        request_headers = dict(headers or {})
        if body is not None:
            content = json.dumps(body).encode()
            request_headers["Content-Type"] = "application/json"
        url = httpx.URL(self.base).copy_with(raw_path=(httpx.URL(self.base).path.rstrip("/") + path).encode())
        timeout = httpx.Timeout(seconds, connect=CONNECT_TIMEOUT_S)
        request = self._http.build_request(
            method, url, content=content, headers=request_headers, timeout=timeout
        )
        with self._explain_errors():
            response = await self._http.send(request, stream=True)
            try:
                if response.has_redirect_location:
                    raise self.redirect_error(response.status_code)
                yield response
            finally:
                await response.aclose()

    async def open_socket(self, path: str) -> ClientConnection:
        """Open a socket; `path` is percent-encoded, relative to the address, with its query.

        Raises:
            InvalidStatus: the server refuses it.
        """
        try:
            return await _NoRedirectConnect(
                f"{self.base.replace('http', 'ws', 1)}{path}",
                additional_headers=self.address.authorization_headers(),
                user_agent_header=USER_AGENT,
                compression=None,
                open_timeout=CONNECT_TIMEOUT_S,
                close_timeout=CLOSE_S,
                ping_interval=PING_S,
                ping_timeout=PING_S,
                max_size=MAX_FRAME,
                proxy=None,
            )
        except InvalidStatus:
            raise
        except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed) as error:
            raise NotReached(
                f"{self.url} cannot open a live connection: {error}.",
                hint="Start it, or correct the address in `--runtime`.",
            ) from error

    async def read(self, response: httpx.Response, max_bytes: int = MAX_RESPONSE) -> RemoteResponse:
        """Read a response; of an error, only its beginning."""
        chunks, size = [], 0
        async for chunk in response.aiter_bytes():
            size += len(chunk)
            if response.is_success and size > max_bytes:
                raise self._too_much(max_bytes)
            if not response.is_success and size > MAX_REFUSAL:
                break
            chunks.append(chunk)
        return RemoteResponse(response.status_code, response.headers, b"".join(chunks))

    async def lines(self, response: httpx.Response, max_bytes: int = MAX_FRAME) -> AsyncIterator[str]:
        """Yield the lines of a stream, each of at most `max_bytes`."""
        pieces: list[bytes] = []
        size = 0
        async for chunk in response.aiter_bytes():
            *complete_lines, incomplete_line = chunk.split(b"\n")
            for piece in complete_lines:
                pieces.append(piece)
                yield b"".join(pieces).rstrip(b"\r").decode(errors="replace")
                pieces, size = [], 0
            pieces.append(incomplete_line)
            size += len(incomplete_line)
            if size > max_bytes:
                raise self._too_much(max_bytes)
        if last := b"".join(pieces):
            yield last.decode(errors="replace")

    def redirect_error(self, status: int) -> NotReached:
        """Return the error for a redirect."""
        return NotReached(
            f"{self.url} redirects ({status}), and redirects are not followed.",
            hint="If the server is at the redirect's target, name that address in `--runtime`.",
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def _too_much(self, max_bytes: int) -> NotReached:
        return NotReached(
            f"{self.url} sent more than {max_bytes // 1_000_000} MB, which is the limit.",
            hint="Check that the address is the ADK server's.",
        )

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as error:
            raise NotReached(
                f"{self.url} {_describe_error(error)}.",
                hint="Start it, or correct the address in `--runtime`; DevUI retries by itself.",
            ) from error
        except httpx.InvalidURL as error:
            raise NotReached(f"The request to {self.url} is not valid: {error}.") from error


class _NoRedirectConnect(connect):
    """A connection that does not follow redirects."""

    @override
    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


def _describe_error(error: httpx.TransportError) -> str:
    """Return the cause of a transport error as the end of a sentence."""
    if isinstance(error, httpx.ConnectTimeout):
        return f"does not answer within {CONNECT_TIMEOUT_S:.0f} s"
    if isinstance(error, httpx.ConnectError):
        return f"cannot be reached: {_connection_failure(error)}"
    if isinstance(error, httpx.TimeoutException):
        return "was silent for too long"
    if isinstance(error, httpx.RemoteProtocolError):
        return "broke off its response, or does not speak HTTP"
    if isinstance(error, httpx.ReadError | httpx.WriteError | httpx.CloseError):
        return "closed the connection"
    return f"cannot be reached: {error}"


def _connection_failure(error: BaseException) -> str:
    """Return the system's reason for a failed connection, from the end of the chain of causes."""
    cause: BaseException | None = error
    reason = str(error)
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError):
            return "the connection was refused"
        if isinstance(cause, OSError) and cause.strerror:
            reason = cause.strerror
        group = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else None
        cause = group or cause.__cause__ or cause.__context__
    return reason
