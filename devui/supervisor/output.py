"""What a runtime process prints, passed on line by line.

The pipe is our own, not asyncio's: asyncio holds back the news of a process's end until every pipe to it is
closed, and what an agent has started may keep it open long after.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable

MAX_LINE = 8_192
LAST_LINES = 40
REST_S = 1.0
"""Seconds to wait for the rest of a dead process's output."""

LineSink = Callable[[str, str], None]


class Output:
    """Reads what a process prints and writes it to a sink, with the app's name.

    Attributes:
        fd: the end of the pipe that the process inherits; closed by `read`.
        last_lines: the newest lines.
    """

    def __init__(self, app_name: str, write_line: LineSink) -> None:
        self._source, self.fd = os.pipe()
        self.last_lines: deque[str] = deque(maxlen=LAST_LINES)
        self._app_name = app_name
        self._write_line = write_line
        self._reading: asyncio.Task[None] | None = None

    def read(self) -> None:
        """Begin to read, when the process has inherited its end."""
        os.close(self.fd)
        self._reading = asyncio.create_task(self._read())

    def close(self) -> None:
        """Close both ends, when there is no process."""
        os.close(self.fd)
        os.close(self._source)

    async def finish(self) -> None:
        """Read what is left of a dead process's output; what it started and left behind is not waited for."""
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=REST_S)
            self._reading.cancel()

    async def _read(self) -> None:
        """Write line by line. A line without end is cut, so that a printing agent fills nothing."""
        stream = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(self._source, "rb", buffering=0)
        )
        rest = b""
        try:
            while data := await stream.read(65_536):
                *lines, rest = (rest + data).split(b"\n")
                if len(rest) > MAX_LINE:
                    lines, rest = [*lines, rest], b""
                for line in lines:
                    self._take(line)
            if rest:
                self._take(rest)
        finally:
            transport.close()

    def _take(self, line: bytes) -> None:
        text = line[:MAX_LINE].decode(errors="replace").rstrip("\r")
        self.last_lines.append(text)
        self._write_line(self._app_name, text)
