"""A clock that tests set: `time.time` and the boot time in `/proc/stat`, which is computed from it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

STEPS_S = (-3600.0, -3.0, 3.0, 3600.0)
"""Seconds by which a clock is set: by NTP, and by a person."""

IN_AN_AGENT = """
import pathlib, time
_clock, _shift = time.time, pathlib.Path({file!r})
time.time = lambda: _clock() + float(_shift.read_text())
"""
"""Lines at the head of an agent's file: the clock of its process is shifted by the seconds in a file."""


@contextmanager
def later(seconds: float) -> Iterator[None]:
    """Let so many seconds have passed inside the block, by the clock that nobody sets."""
    monotonic = time.monotonic
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: monotonic() + seconds)
        yield


class Clock:
    """The wall clock of this process, and of agents that read its shift in a file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
        self.file = file
        self.shift = 0.0
        file.write_text("0")
        clock, read_text = time.time, Path.read_text

        def read(path: Path, *arguments: Any, **options: Any) -> str:
            text = read_text(path, *arguments, **options)
            if str(path) != "/proc/stat":
                return text
            lines = (line.split() for line in text.splitlines())
            return "\n".join(
                f"btime {int(line[1]) + int(self.shift)}" if line[0] == "btime" else " ".join(line)
                for line in lines
            )

        monkeypatch.setattr(time, "time", lambda: clock() + self.shift)
        monkeypatch.setattr(Path, "read_text", read)

    def step(self, seconds: float) -> None:
        """Set the clock forward, or back."""
        self.shift += seconds
        other = self.file.with_suffix(".new")
        other.write_text(str(self.shift))
        other.replace(self.file)  # whoever reads it finds a number
