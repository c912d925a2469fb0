"""Times that stay steady though the clock is set meanwhile: of one process, and of what it sees of others."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping


class Stopwatch:
    """Tells the time as the clock said it at the start, plus what has passed since.

    Of what is timed by one watch the times are in order, and the difference of two of them is a duration.
    """

    def __init__(self, began_at: float | None = None) -> None:
        """Start now. `began_at` is what the clock said, in seconds since the epoch; None: it is asked."""
        self.began_at = time.time() if began_at is None else began_at
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return time.monotonic() - self._began

    def now(self) -> float:
        """Return the time, in seconds since the epoch."""
        return self.began_at + self.seconds

    def clock_error(self) -> float:
        """Return by how many seconds the clock was set forward since the start; below 0: back."""
        return time.time() - self.now()


class ChangeTimer:
    """Measures for how long values have not changed since this process first saw them as they are.

    For values that other processes write: no times of two processes are compared.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[object, float]] = {}

    def seconds_unchanged(self, name: str, value: object) -> float:
        """Note what the value of this name is now; return for how many seconds it has been seen to be that."""
        now = time.monotonic()
        seen, since = self._seen.get(name, (None, now))
        if name not in self._seen or seen != value:
            self._seen[name] = value, now
            return 0.0
        return now - since

    def keep_only(self, names: Collection[str]) -> None:
        """Forget all other names."""
        for gone in self._seen.keys() - set(names):
            del self._seen[gone]

    def unchanged(self, values: Mapping[str, object], seconds: float) -> list[str]:
        """Note all values there are, by name; return the names of those that have not changed for so many seconds."""
        self.keep_only(values)
        return [name for name, value in values.items() if self.seconds_unchanged(name, value) >= seconds]
