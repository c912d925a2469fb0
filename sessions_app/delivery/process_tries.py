"""Work that a process of an app takes, or the next process if that one ends before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from sessions_app.store.database import retry
from sessions_app.store.errors import RuntimeUnavailable, ServerStopping

MAX_PROCESSES = 3
"""Number of processes that may end before they have taken work; another run's agent may be what ends them."""

R = TypeVar("R")


class ProcessEnded(RuntimeUnavailable):
    """A process ended, or could not be reached, before it had taken the work. The next one may take it."""


@dataclass(slots=True)
class ProcessTries:
    """The processes that have been asked to take one piece of work.

    Attributes:
        retried: errors after which the next process is asked.
        ended: number of processes that ended before they had taken it.
    """

    retried: type[RuntimeUnavailable] = ProcessEnded
    ended: int = 0
    _last: RuntimeUnavailable | None = None

    def note_end(self, error: RuntimeUnavailable) -> None:
        """Count a process that has ended."""
        self.ended, self._last = self.ended + 1, error

    async def run(self, send: Callable[[], Awaitable[R]]) -> R:
        """Send the work to processes until one takes it. Waits while the store is unavailable.

        Raises:
            RuntimeUnavailable: `MAX_PROCESSES` have ended; the error of the last one.
            ServerStopping: the server stops.
            Exception: `send` failed for another reason.
        """
        while self._last is None or self.ended < MAX_PROCESSES:
            try:
                return await retry.run(send)
            except ServerStopping:
                raise
            except self.retried as error:
                self.note_end(error)
        raise self._last
