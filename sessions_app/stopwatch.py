"""Times of what goes on in one process, steady though the clock is set meanwhile."""

from __future__ import annotations

import time


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
