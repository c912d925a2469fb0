"""Output of child processes: read as fast as it comes, and passed on within a limit.

A program that prints without end fills neither a log nor the pipe it prints to: what is above the limit is read,
counted and dropped, and a note says so.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

if sys.platform != "win32":
    import fcntl

LIMIT_BYTES = 1_000_000
"""Bytes of a process's output that are passed on in one window of time."""

WINDOW_S = 600.0

READ_BYTES = 1 << 20
"""Bytes of one read, and of the pipe where the system allows it: a fast writer wakes the reader less often."""

PAUSE_S = 0.002
"""Seconds between two reads: what a process prints line by line comes together, and wakes the reader once."""

DRAIN_S = 1.0
"""Seconds to wait for the rest of a dead process's output."""

NOTE_PREFIX = "[DevUI]"
"""How a note of ours begins among the lines of a process."""

Write = Callable[[bytes], object]


class OutputLimit:
    """Passes on `SHOWN_BYTES` of output in each window of `WINDOW_S`, and notes what it drops."""

    def __init__(self, show: Write, rest_is: str = "The rest is dropped.") -> None:
        """Pass output on to `show`. `rest_is` says what becomes of what is above the limit."""
        self._show = show
        self._rest_is = rest_is
        self._left = LIMIT_BYTES
        self._window_ends = 0.0
        self._dropped_lines = 0
        self._dropped_bytes = 0
        self._at_line_start = True

    @classmethod
    def to(cls, fd: int) -> OutputLimit:
        """Pass output on to a descriptor of this process."""
        return cls(partial(_write_all, fd))

    def take(self, data: bytes) -> None:
        """Pass on what the limit allows of the next output."""
        now = time.monotonic()
        if now >= self._window_ends:
            self._note_dropped()
            self._left, self._window_ends = LIMIT_BYTES, now + WINDOW_S
        if len(data) <= self._left:
            self._left -= len(data)
            self._pass_on(data)
            return
        end_of_line = data.rfind(b"\n", 0, self._left) + 1
        self._pass_on(data[: end_of_line or self._left])
        if not self._dropped_bytes:
            limit = f"{format_megabytes(LIMIT_BYTES)} in {WINDOW_S / 60:.0f} minutes"
            self._note(f"Output is limited to {limit}. {self._rest_is}")
        self._drop(data[end_of_line or self._left :])
        self._left = 0

    def end(self) -> None:
        """Note what was dropped, and end the last line: nothing more comes."""
        self._note_dropped()
        if not self._at_line_start:
            self._pass_on(b"\n")

    def _note_dropped(self) -> None:
        if self._dropped_bytes:
            lines, size = self._dropped_lines, format_megabytes(self._dropped_bytes)
            self._note(f"{size} of output, {lines:,} lines, were not shown.")
        self._dropped_lines = self._dropped_bytes = 0

    def _pass_on(self, data: bytes) -> None:
        if data:
            self._at_line_start = data.endswith(b"\n")
            self._show(data)

    def _drop(self, data: bytes) -> None:
        self._dropped_bytes += len(data)
        self._dropped_lines += data.count(b"\n")

    def _note(self, text: str) -> None:
        self._pass_on(f"{'' if self._at_line_start else chr(10)}{NOTE_PREFIX} {text}\n".encode())


class OutputReader:
    """Reads what a process prints, in a thread of its own: neither an event loop nor the process waits for it.

    The pipe is our own, not that of `subprocess` or asyncio: what a process has started may keep it open long after
    the process has ended.

    Attributes:
        fd: the end of the pipe that the process inherits; closed by `start`.
    """

    def __init__(self, limit: OutputLimit, take: Write | None = None) -> None:
        """Hand all output to `take`, as it comes, if it is given, and then to the limit."""
        self._source, self.fd = os.pipe()
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # the user has too many such pipes
                fcntl.fcntl(self._source, fcntl.F_SETPIPE_SZ, READ_BYTES)
        self._take = take
        self._limit = limit
        self._thread = threading.Thread(target=self._read_all, name="devui-output", daemon=True)

    def start(self) -> None:
        """Begin to read, when the process has inherited its end."""
        os.close(self.fd)
        self._thread.start()

    def close(self) -> None:
        """Close the pipe, when there is no process."""
        os.close(self.fd)
        os.close(self._source)

    def finish(self) -> None:
        """Wait for the rest of a dead process's output; what it started and left behind is not waited for."""
        self._thread.join(DRAIN_S)

    def _read_all(self) -> None:
        while data := os.read(self._source, READ_BYTES):
            for take in filter(None, (self._take, self._limit.take)):
                with contextlib.suppress(OSError, ValueError):  # it goes nowhere, and the process goes on
                    take(data)
            time.sleep(PAUSE_S)
        with contextlib.suppress(OSError, ValueError):
            self._limit.end()
        os.close(self._source)


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def format_megabytes(size: int) -> str:
    """Return a number of bytes for people."""
    return f"{size / 1e6:.1f} MB"
