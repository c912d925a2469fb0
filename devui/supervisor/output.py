"""Output of a runtime process: copied line by line to the server's within a limit, and its newest part to a file."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from sessions_app.agent_processes.process_output import (
    MARK_S,
    NOTE_PREFIX,
    OutputLimit,
    OutputReader,
    format_megabytes,
    older_file,
    output_file,
    time_mark,
)
from sessions_app.presentation import visible_text

MAX_LINE = 8_192
"""Most bytes of a line; a longer one is split."""

LAST_LINES = 40
LAST_BYTES = 65_536

FILE_BYTES = 5_000_000
"""Size from which an app's output file is rotated; one older file is kept."""

LineSink = Callable[[str, str], None]


class ProcessOutput:
    """Reads the output of a process and writes it to a sink, with the app's name, within `OutputLimit`.

    Attributes:
        fd: end of the pipe that the process inherits; `read` closes it.
    """

    def __init__(self, app_name: str, write_line: LineSink, folder: Path | None = None) -> None:
        """Keep the newest output in a file of `folder`, if one is given."""
        self._app_name = app_name
        self._write_line = write_line
        self._file = OutputFile(output_file(folder, app_name)) if folder else None
        self._newest = b""
        self._rest = b""
        rest_note = f"The newest output is in {self._file.path}." if self._file else "The rest is dropped."
        self._reader = OutputReader(OutputLimit(self._show_lines, rest_note), self._take_output)
        self.fd = self._reader.fd

    @property
    def last_lines(self) -> list[str]:
        """The newest lines, including those beyond the limit."""
        return [_decode_line(line) for line in self._newest.splitlines()[-LAST_LINES:]]

    def read(self) -> None:
        """Start reading, after the process has inherited its end of the pipe."""
        self._reader.start()

    def close(self) -> None:
        """Close both ends, if no process was started."""
        self._reader.close()

    async def finish(self) -> None:
        """Read the rest of an ended process's output, without waiting for processes that it left behind."""
        await asyncio.to_thread(self._reader.finish)

    def _take_output(self, data: bytes) -> None:
        self._newest = (self._newest + data[-LAST_BYTES:])[-LAST_BYTES:]
        if self._file and data:
            self._file.append(data)

    def _show_lines(self, data: bytes) -> None:
        """Write complete lines. An incomplete line is held until its end, or until it is long enough.

        Control characters are escaped, so that an agent cannot steer the terminal of the server.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            for start in range(0, len(line) or 1, MAX_LINE):
                text = visible_text.escape_text(_decode_line(line[start : start + MAX_LINE]))
                self._write_line(self._app_name, text)


class OutputFile:
    """The newest output of an app's processes: a file that only its owner may read, and the file before it.

    A file of `max_bytes` is rotated. At most once a second, a line with the time precedes the output.
    """

    def __init__(
        self, path: Path, max_bytes: int = FILE_BYTES, clock: Callable[[], float] = time.time
    ) -> None:
        self.path = path
        self._clock = clock
        self._marked_at = 0.0
        self._at_line_start = True
        self._max_bytes = max_bytes
        self._older = older_file(path)
        self._dropped = 0

    def append(self, data: bytes) -> None:
        """Append output unchanged, after a line with the time if a second has passed.

        Raises:
            OSError: the file cannot be written; the next call tries again.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(self.path, "ab", buffering=0, opener=_open_private) as file:
            file.write(self._time_mark_due() + data)
            size = file.tell()
        self._at_line_start = data.endswith(b"\n")
        if size > self._max_bytes:
            self._rotate_file()

    def _time_mark_due(self) -> bytes:
        now = self._clock()
        if not self._at_line_start or 0 <= now - self._marked_at < MARK_S:
            return b""
        self._marked_at = now
        return time_mark(now)

    def _rotate_file(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._dropped += self._older.stat().st_size
        self.path.replace(self._older)
        if self._dropped:
            self.append(
                f"{NOTE_PREFIX} {format_megabytes(self._dropped)} before {self._older.name} were dropped.\n".encode()
            )


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _decode_line(line: bytes) -> str:
    return line[:MAX_LINE].decode(errors="replace").rstrip("\r")
