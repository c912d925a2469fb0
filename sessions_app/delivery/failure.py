"""Reasons why runs and attempts failed, as their rows store them."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from sessions_app.store.errors import DevUIError


@dataclass(frozen=True)
class Failure:
    """Reason why a run or an attempt failed."""

    type: str
    message: str
    traceback: str = ""
    hint: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Return the failure of an exception; one of our own errors needs no traceback."""
        name = type(error).__name__
        if isinstance(error, DevUIError):
            return cls(name, error.message, hint=error.hint)
        return cls(name, str(error) or name, "".join(traceback.format_exception(error)))

    @property
    def text(self) -> str:
        """Message and hint."""
        return " ".join(filter(None, (self.message, self.hint)))


NO_FAILURE = Failure("", "")
"""The reason of a run or attempt that did not fail: empty texts."""
