"""Measure times independently of changes of the system clock."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping


class Stopwatch:
    """A clock that starts at the system time and then follows the monotonic clock.

    Times of one stopwatch are ordered, and the difference of two is a duration.
    """

    def __init__(self, began_at: float | None = None) -> None:
        """Start the watch. `began_at` is the start in epoch seconds; default: now."""
        self.began_at = time.time() if began_at is None else began_at
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def now(self) -> float:
        """Return the current time in epoch seconds."""
        return self.began_at + self.seconds

    def clock_error(self) -> float:
        """Return the seconds by which the system clock was set forward since the start; negative: back."""
        return time.time() - self.now()


class ChangeTimer:
    """Measures how long values have not changed, counted from when this process first saw them.

    For values that other processes write: times of different processes are never compared.
    """

    def __init__(self, max_gap_s: float = math.inf) -> None:
        """Create a timer.

        Args:
            max_gap_s: seconds between two readings of a value after which the count begins anew: this process was
                paused or could not read, so it does not know whether the value changed in time.
        """
        self._max_gap_s = max_gap_s
        self._last_values: dict[str, tuple[object, float, float]] = {}

    def seconds_unchanged(self, name: str, value: object) -> float:
        """Record the current value of a name; return the seconds since it last changed."""
        now = time.monotonic()
        last_value, since, read_at = self._last_values.get(name, (value, now, now))
        if last_value != value or now - read_at > self._max_gap_s:
            since = now
        self._last_values[name] = value, since, now
        return now - since

    def keep_only(self, names: Collection[str]) -> None:
        """Forget all other names."""
        for name in self._last_values.keys() - set(names):
            del self._last_values[name]

    def find_unchanged(self, values: Mapping[str, object], seconds: float) -> list[str]:
        """Record all values by name; return the names whose value has not changed for so many seconds."""
        self.keep_only(values)
        return [name for name, value in values.items() if self.seconds_unchanged(name, value) >= seconds]
