"""What a runtime process prints: line by line beside the server's own, within a limit, and the newest in a file."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from sessions_app.runs.process_output import NOTE_PREFIX, OutputLimit, OutputReader, format_megabytes

MAX_LINE = 8_192
"""Bytes of a line; a longer one is broken."""

LAST_LINES = 40
LAST_BYTES = 65_536

FILE_BYTES = 5_000_000
"""An app's file of output is rotated when it has more; one older file is kept."""

LineSink = Callable[[str, str], None]


class ProcessOutput:
    """Reads what a process prints and writes it to a sink, with the app's name, within `OutputLimit`.

    Attributes:
        fd: the end of the pipe that the process inherits; closed by `read`.
    """

    def __init__(self, app_name: str, write_line: LineSink, folder: Path | None = None) -> None:
        """Keep the newest output in a file of `folder` when one is given."""
        self._app_name = app_name
        self._write_line = write_line
        self._file = OutputFile(folder / f"{app_name}.log") if folder else None
        self._newest = b""
        self._rest = b""
        rest_is = f"The newest output is in {self._file.path}." if self._file else "The rest is dropped."
        self._reader = OutputReader(OutputLimit(self._show, rest_is), self._take)
        self.fd = self._reader.fd

    @property
    def last_lines(self) -> list[str]:
        """The newest lines, shown or not."""
        return [_text(line) for line in self._newest.splitlines()[-LAST_LINES:]]

    def read(self) -> None:
        """Begin to read, when the process has inherited its end."""
        self._reader.start()

    def close(self) -> None:
        """Close both ends, when there is no process."""
        self._reader.close()

    async def finish(self) -> None:
        """Read what is left of a dead process's output; what it started and left behind is not waited for."""
        await asyncio.to_thread(self._reader.finish)

    def _take(self, data: bytes) -> None:
        self._newest = (self._newest + data[-LAST_BYTES:])[-LAST_BYTES:]
        if self._file and data:
            self._file.append(data)

    def _show(self, data: bytes) -> None:
        """Write line by line. A line that goes on is held until its end, or until it is long enough."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            for start in range(0, len(line) or 1, MAX_LINE):
                self._write_line(self._app_name, _text(line[start : start + MAX_LINE]))


class OutputFile:
    """The newest output of an app's processes: a file that only its owner reads, and the one before it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._older = path.with_name(f"{path.name}.1")
        self._dropped = 0

    def append(self, data: bytes) -> None:
        """Write output as it is.

        Raises:
            OSError: the file cannot be written; the next call tries again.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(self.path, "ab", buffering=0, opener=_open_private) as file:
            file.write(data)
            size = file.tell()
        if size > FILE_BYTES:
            self._rotate()

    def _rotate(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._dropped += self._older.stat().st_size
        self.path.replace(self._older)
        if self._dropped:
            self.append(
                f"{NOTE_PREFIX} {format_megabytes(self._dropped)} before {self._older.name} were dropped.\n".encode()
            )


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _text(line: bytes) -> str:
    return line[:MAX_LINE].decode(errors="replace").rstrip("\r")
