"""Measure times independently of changes of the system clock."""

from __future__ import annotations

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

    def __init__(self) -> None:
        self._last_values: dict[str, tuple[object, float]] = {}

    def seconds_unchanged(self, name: str, value: object) -> float:
        """Record the current value of a name; return the seconds since it last changed."""
        now = time.monotonic()
        last_value, since = self._last_values.get(name, (None, now))
        if name not in self._last_values or last_value != value:
            self._last_values[name] = value, now
            return 0.0
        return now - since

    def keep_only(self, names: Collection[str]) -> None:
        """Forget all other names."""
        for name in self._last_values.keys() - set(names):
            del self._last_values[name]

    def find_unchanged(self, values: Mapping[str, object], seconds: float) -> list[str]:
        """Record all values by name; return the names whose value has not changed for so many seconds."""
        self.keep_only(values)
        return [name for name, value in values.items() if self.seconds_unchanged(name, value) >= seconds]
