"""Time budget of a long scan: the size of its next batch, and whether there is time for it."""

from __future__ import annotations

import time


class TimeBudget:
    """The size of a scan's next batch, and whether there is time left for it."""

    def __init__(self, batch_size: int, seconds: float) -> None:
        """Take the size of the first batch and the seconds after which the scan ends with its current batch."""
        self.size = batch_size
        self._seconds = seconds
        self.has_time = True
        self._began = self._stepped = _current_time()

    def step(self) -> None:
        """Record that a batch was scanned. The next one is four times as large if it was quick."""
        now = _current_time()
        self.has_time = now - self._began < self._seconds
        if (now - self._stepped) * 8 < self._seconds:
            self.size *= 4
        self._stepped = now


def _current_time() -> float:
    return time.monotonic()
