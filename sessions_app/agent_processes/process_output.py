"""Output of child processes: read without delay, passed on up to a limit.

A process that prints endlessly fills neither the log nor its pipe: output above the limit is read, counted and dropped,
and a note reports it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from django.conf import settings

from sessions_app.store.scopes import clean_error

LIMIT_BYTES = 1_000_000
"""Bytes of a process's output that are passed on per time window."""

WINDOW_S = 600.0

READ_BYTES = 1 << 20
"""Size of a read and, where the system allows it, of the pipe: a fast writer then wakes the reader less often."""

PAUSE_S = 0.002
"""Seconds between two reads, so that lines printed one by one are read together."""

DRAIN_S = 1.0
"""Timeout for reading the remaining output of an ended process."""

NOTE_PREFIX = "[DevUI]"
"""Prefix of DevUI's notes among the lines of a process."""

MARK_S = 1.0
"""Minimum seconds between two lines with the time in an output file."""

SHOWN_BYTES = 200_000
"""Maximum bytes that are shown of the output during a run; the newest ones."""

_MARK = re.compile(rb"^\[DevUI\] (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)Z\n", re.MULTILINE)

Write = Callable[[bytes], object]


def output_file(folder: Path, app_name: str) -> Path:
    """Return the path of the newest output of an app's processes."""
    return folder / f"{app_name}.log"


def older_file(path: Path) -> Path:
    """Return the path of the file to which an output file is rotated."""
    return path.with_name(f"{path.name}.1")


def time_mark(seconds: float) -> bytes:
    """Return the line with the time before the output that follows."""
    return f"{NOTE_PREFIX} {datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}Z\n".encode()


def read_output(app_name: str, start: float, end: float) -> str | None:
    """Return the output that an app's processes printed in a period, to the second, without credentials.

    None if this server keeps no output of the app. Of a large output, the newest `SHOWN_BYTES` are returned.
    """
    path = output_file(Path(getattr(settings, "DATA_DIR", ".devui")) / "output", app_name)
    files = [file for file in (older_file(path), path) if Path(app_name).name == app_name and file.is_file()]
    if not files:
        return None
    data = b"".join(file.read_bytes() for file in files)
    marks = list(_MARK.finditer(data))
    ends = [*(mark.start() for mark in marks[1:]), len(data)]
    sections = [
        data[mark.end() : section_end]
        for mark, section_end in zip(marks, ends, strict=True)
        if start - 2 * MARK_S <= datetime.fromisoformat(f"{mark[1].decode()}+00:00").timestamp() <= end
    ]
    return clean_error(b"".join(sections)[-SHOWN_BYTES:].decode(errors="replace"))


class OutputLimit:
    """Passes on `limit` bytes of output per `WINDOW_S` and notes what it drops."""

    def __init__(
        self, show: Write, rest_note: str = "The rest is dropped.", *, limit: int = LIMIT_BYTES
    ) -> None:
        """Pass output on to `show`. `rest_note` tells users where output above the limit goes."""
        self._show = show
        self._rest_note = rest_note
        self._limit = self._left = limit
        self._window_ends = 0.0
        self._dropped_lines = 0
        self._dropped_bytes = 0
        self._at_line_start = True

    @classmethod
    def to(cls, fd: int) -> OutputLimit:
        """Pass output on to a file descriptor of this process."""
        return cls(partial(_write_all, fd))

    def take(self, data: bytes) -> None:
        """Pass on as much of the data as the limit allows."""
        now = time.monotonic()
        if now >= self._window_ends:
            self._note_dropped()
            self._left, self._window_ends = self._limit, now + WINDOW_S
        if len(data) <= self._left:
            self._left -= len(data)
            self._pass_on(data)
            return
        end_of_line = data.rfind(b"\n", 0, self._left) + 1
        self._pass_on(data[: end_of_line or self._left])
        if not self._dropped_bytes:
            limit = f"{format_megabytes(self._limit)} in {WINDOW_S / 60:.0f} minutes"
            self._write_note(f"Output is limited to {limit}. {self._rest_note}")
        self._drop_output(data[end_of_line or self._left :])
        self._left = 0

    def end(self) -> None:
        """Note what was dropped and end the last line. Called at the end of the output."""
        self._note_dropped()
        if not self._at_line_start:
            self._pass_on(b"\n")

    def _note_dropped(self) -> None:
        if self._dropped_bytes:
            lines, size = self._dropped_lines, format_megabytes(self._dropped_bytes)
            self._write_note(f"{size} of output, {lines:,} lines, were not shown.")
        self._dropped_lines = self._dropped_bytes = 0

    def _pass_on(self, data: bytes) -> None:
        if data:
            self._at_line_start = data.endswith(b"\n")
            self._show(data)

    def _drop_output(self, data: bytes) -> None:
        self._dropped_bytes += len(data)
        self._dropped_lines += data.count(b"\n")

    def _write_note(self, text: str) -> None:
        self._pass_on(f"{'' if self._at_line_start else chr(10)}{NOTE_PREFIX} {text}\n".encode())


class OutputReader:
    """Reads a process's output in its own thread, so that neither an event loop nor the process waits.

    It has its own pipe instead of that of `subprocess` or asyncio, because children of the process may keep a pipe open
    long after the process has ended.

    Attributes:
        fd: the write end of the pipe, which the process inherits; closed by `start`.
    """

    def __init__(self, limit: OutputLimit, take: Write | None = None) -> None:
        """Pass all output to `take`, if given, and then to `limit`."""
        self._source, self.fd = os.pipe()
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # the user's limit of pipe memory is reached
                fcntl.fcntl(self._source, fcntl.F_SETPIPE_SZ, READ_BYTES)
        self._take = take
        self._limit = limit
        self._thread = threading.Thread(target=self._read_all, name="devui-output", daemon=True)

    def start(self) -> None:
        """Start reading. Call after the process has inherited `fd`."""
        os.close(self.fd)
        self._thread.start()

    def close(self) -> None:
        """Close the pipe. Call if no process was started."""
        os.close(self.fd)
        os.close(self._source)

    def finish(self) -> None:
        """Wait for the remaining output of an ended process, not for that of its children."""
        self._thread.join(DRAIN_S)

    def _read_all(self) -> None:
        # a signal that this thread got would not wake the main thread, which waits for the process and handles signals
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while data := os.read(self._source, READ_BYTES):
            for take in filter(None, (self._take, self._limit.take)):
                with contextlib.suppress(OSError, ValueError):  # output that cannot be written is dropped
                    take(data)
            time.sleep(PAUSE_S)
        with contextlib.suppress(OSError, ValueError):
            self._limit.end()
        os.close(self._source)


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def format_megabytes(size: int) -> str:
    """Return a size in bytes as text in MB."""
    return f"{size / 1e6:.1f} MB"
