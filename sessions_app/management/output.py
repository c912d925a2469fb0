"""Output of commands: progress on a terminal, and lists of lines."""

from __future__ import annotations

import time
from collections.abc import Sequence

from django.core.management.base import OutputWrapper

from sessions_app.presentation import visible_text

PROGRESS_S = 0.5
MAX_LINES = 50


class Progress:
    """A line of progress, rewritten at most every `PROGRESS_S`. Nothing is written unless to a terminal."""

    def __init__(self, output: OutputWrapper) -> None:
        self._output = output
        self._written_at = 0.0

    def show(self, text: str) -> None:
        """Replace the line."""
        now = time.monotonic()
        if self._output.isatty() and now - self._written_at > PROGRESS_S:
            self._written_at = now
            self._output.write(f"\r{text}", ending="")


def write_lines(output: OutputWrapper, lines: Sequence[str], total: int) -> None:
    """Write the first lines of a list of `total`, indented, with invisible characters escaped."""
    for line in lines[:MAX_LINES]:
        output.write(f"  {visible_text.escape_name(line)}")
    if total > MAX_LINES:
        output.write(f"  … and {total - MAX_LINES} more")
