"""Pauses of an invocation that waits to be resumed; they do not count as working time. Pure."""

from __future__ import annotations

from collections.abc import Iterable

Interval = tuple[float, float]
"""Start and end, in seconds since the epoch."""


class Pauses:
    """Merged intervals in which an invocation waited."""

    def __init__(self, stretches: Iterable[Interval] = ()) -> None:
        self._stretches: list[Interval] = []
        for start, end in sorted(stretches):
            if end <= start:
                continue
            if self._stretches and start <= self._stretches[-1][1]:
                start, before = self._stretches.pop()
                end = max(end, before)
            self._stretches.append((start, end))

    def between(self, start: float, end: float) -> float:
        """Return the seconds of pauses between two times."""
        return sum(max(0.0, min(end, last) - max(start, first)) for first, last in self._stretches)

    def work(self, start: float, end: float) -> float:
        """Return the seconds between two times without pauses."""
        return max(0.0, end - start - self.between(start, end))
