"""The room that attempts of all runs of a process share: many at once, or one that is to be alone."""

from __future__ import annotations

from collections.abc import Callable

RetryCallback = Callable[[], None]


class AttemptAdmission:
    """Who is told that there is no room is called when there is, in the order in which they came.

    Who wants to be alone keeps others out who come later, so it need not wait for runs that never let up.
    """

    def __init__(self) -> None:
        self._inside: set[int] = set()
        self._is_taken = False
        self._waiting: dict[RetryCallback, None] = {}

    def enter(self, attempt_pk: int, alone: bool, retry: RetryCallback) -> bool:
        """Let an attempt in; False: there is no room for it, and `retry` is called when there is."""
        is_next = next(iter(self._waiting), retry) == retry
        if not is_next or self._is_taken or (alone and self._inside):
            self._waiting.setdefault(retry)
            return False
        self._waiting.pop(retry, None)
        self._inside.add(attempt_pk)
        self._is_taken = alone
        return True

    def leave(self, attempt_pk: int) -> None:
        """Let an attempt out."""
        if attempt_pk not in self._inside:
            return
        self._inside.discard(attempt_pk)
        self._is_taken = False
        self._call_next()

    def forget(self, retry: RetryCallback) -> None:
        """Let somebody wait no longer."""
        if retry in self._waiting:
            del self._waiting[retry]
            self._call_next()

    def _call_next(self) -> None:
        """Call those who wait, until one of them stays."""
        for retry in list(self._waiting):
            if retry in self._waiting:
                retry()
            if retry in self._waiting:
                return


PROCESS_ADMISSION = AttemptAdmission()
"""The room of this process."""
