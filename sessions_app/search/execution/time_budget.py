"""How fast something long is looked through, stretch by stretch, and when a look at it ends."""

from __future__ import annotations

import time


class TimeBudget:
    """How large the next stretch of a look is, and whether there is time for it."""

    def __init__(self, stretch: int, seconds: float) -> None:
        """Take the size of the first stretch, and after how many seconds a look ends, at the end of a stretch."""
        self.size = stretch
        self._seconds = seconds
        self.goes_on = True
        self._began = self._stepped = _now()

    def step(self) -> None:
        """Take note that a stretch was looked at: the next is four times as large as long as that is quick."""
        now = _now()
        self.goes_on = now - self._began < self._seconds
        if (now - self._stepped) * 8 < self._seconds:
            self.size *= 4
        self._stepped = now


def _now() -> float:
    return time.monotonic()
