"""Admission of attempts to a process that several runs share."""

from __future__ import annotations

from collections.abc import Callable

RetryCallback = Callable[[], None]


class AttemptAdmission:
    """Admit attempts in FIFO order; call back the rejected ones when capacity frees.

    An attempt that must run alone blocks later ones, so it is admitted even if other runs never pause.
    """

    def __init__(self) -> None:
        self._inside: set[int] = set()
        self._is_exclusive = False
        self._waiting: dict[RetryCallback, None] = {}

    def enter(self, attempt_pk: int, alone: bool, retry: RetryCallback) -> bool:
        """Admit an attempt; if there is no capacity, return False and call `retry` later."""
        is_next = next(iter(self._waiting), retry) == retry
        if not is_next or self._is_exclusive or (alone and self._inside):
            self._waiting.setdefault(retry)
            return False
        self._waiting.pop(retry, None)
        self._inside.add(attempt_pk)
        self._is_exclusive = alone
        return True

    def leave(self, attempt_pk: int) -> None:
        """Remove an attempt that was admitted."""
        if attempt_pk not in self._inside:
            return
        self._inside.discard(attempt_pk)
        self._is_exclusive = False
        self._call_next()

    def forget(self, retry: RetryCallback) -> None:
        """Remove a callback from the queue."""
        if retry in self._waiting:
            del self._waiting[retry]
            self._call_next()

    def _call_next(self) -> None:
        """Call the queued callbacks until one of them stays queued."""
        for retry in list(self._waiting):
            if retry in self._waiting:
                retry()
            if retry in self._waiting:
                return


PROCESS_ADMISSION = AttemptAdmission()
"""Admission to this process."""
