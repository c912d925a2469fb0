"""Listening sockets of runtimes: unix sockets in a private folder.

The parent binds the socket and passes it on, so that requests wait while the process starts.
"""

from __future__ import annotations

import shutil
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path

BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket and its address."""

    socket: socket.socket
    path: Path

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
