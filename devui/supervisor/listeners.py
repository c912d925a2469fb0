"""Listening sockets of runtimes: unix sockets in a private folder.

The parent binds the socket and passes it on, so that requests wait while the process starts.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from websockets.asyncio.client import connect, unix_connect

from devui.supervisor.http_calls import NO_CERTIFICATES, SOCKET_OPTIONS

if TYPE_CHECKING:
    import httpx

BACKLOG = 1024

CONNECT_S = 5.0
"""Seconds for a connection to a process."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket and its address."""

    socket: socket.socket
    path: Path

    def client(self, headers: dict[str, str]) -> httpx.AsyncClient:
        """Return an HTTP client for the socket, without a time limit for responses.

        Each request has its own connection: the server closes connections after an agent's error, and if a process
        forked by the agent holds one open, the next request on it would never be answered.
        """
        import httpx

        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        return httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(self.path), verify=NO_CERTIFICATES, limits=limits),
            base_url="http://127.0.0.1",
            headers=headers,
            timeout=httpx.Timeout(None, connect=CONNECT_S),
            trust_env=False,
        )

    def connect(self, path: str, headers: dict[str, str]) -> connect:
        """Return a WebSocket to the socket; `async with` opens it, without a time limit."""
        return unix_connect(
            str(self.path),
            f"ws://127.0.0.1{path}",
            additional_headers=headers,
            **SOCKET_OPTIONS,
        )

    async def accepts_connections(self) -> bool:
        """Tell whether a process listens. One whose queue of connections is full does."""
        try:
            async with asyncio.timeout(CONNECT_S):
                _, writer = await asyncio.open_unix_connection(str(self.path))
        except TimeoutError:
            return True
        except OSError:
            return False
        writer.close()
        return True

    def close(self) -> None:
        """Close this process's descriptor; processes that inherited the socket still listen."""
        self.socket.close()

    def remove(self) -> None:
        """Remove the socket's file, when nothing listens on it."""
        self.path.unlink(missing_ok=True)


class SocketFolder:
    """A private folder for the sockets of one web process."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._count = 0

    def listen(self) -> Listener:
        """Return a new listening socket.

        Raises:
            OSError: the folder for temporary files cannot be written, or its path is too long for a socket.
        """
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="devui-"))  # mode 0700
        self._count += 1
        path = self._folder / f"{self._count}.sock"
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(path))
        listening.listen(BACKLOG)
        return Listener(listening, path)

    def remove(self) -> None:
        """Remove the folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
