"""Connections to a process that answers HTTP requests and sockets: a runtime process, or a worker."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from websockets.asyncio.client import connect

from devui.runtime.config import TOKEN_HEADER

if TYPE_CHECKING:
    import httpx

CONNECT_S = 5.0
"""Seconds for a process to accept a connection."""

NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of plain HTTP: by default each would read all certificate authorities, which takes 20 ms."""


@dataclass(frozen=True)
class Upstream:
    """Address of a process, and the token by which it knows its callers.

    The web process limits what its clients send. Here no response, message or silence is too long.

    Attributes:
        address: HOST:PORT with the prefix of all paths.
        socket_file: the unix socket on which it listens; empty: it listens on its address.
    """

    address: str
    token: str
    socket_file: str = ""

    @cached_property
    def http(self) -> httpx.AsyncClient:
        """HTTP client of the address.

        Each request has its own connection: the server closes connections after an agent's error, and if a process
        forked by the agent holds one open, the next request on it would never be answered.
        """
        import httpx

        return httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(
                uds=self.socket_file or None,
                verify=NO_CERTIFICATES,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            ),
            base_url=f"http://{self.address}",
            headers={TOKEN_HEADER: self.token},
            timeout=httpx.Timeout(None, connect=CONNECT_S),
            trust_env=False,
        )

    def connect(self, path: str, headers: Mapping[str, str]) -> connect:
        """Return a WebSocket to the process, opened by awaiting it."""
        unix_socket: dict[str, Any] = {"unix": True, "path": self.socket_file} if self.socket_file else {}
        return connect(
            f"ws://{self.address}{path}",
            additional_headers={**headers, TOKEN_HEADER: self.token},
            compression=None,
            open_timeout=None,
            ping_interval=None,
            max_size=None,
            proxy=None,
            **unix_socket,
        )

    async def accepts_connections(self) -> bool:
        """Tell whether a process listens. On a unix socket one whose queue of connections is full does."""
        url = urlsplit(f"http://{self.address}")
        try:
            async with asyncio.timeout(CONNECT_S):
                if self.socket_file:
                    _, writer = await asyncio.open_unix_connection(self.socket_file)
                else:
                    _, writer = await asyncio.open_connection(url.hostname, url.port)
        except OSError as error:
            return isinstance(error, TimeoutError) and bool(self.socket_file)
        writer.close()
        return True
