"""What ADK's evaluators only log: the reasons they swallow, kept for the person who asks why."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_heard: ContextVar[list[str] | None] = ContextVar("heard", default=None)
_LOGGER = "google_adk"


class _Ear(logging.Handler):
    """Hands a warning to the evaluation that it belongs to: a context's tasks share its list."""

    def emit(self, record: logging.LogRecord) -> None:
        heard = _heard.get()
        if heard is not None:
            heard.append(record.getMessage())


_ear = _Ear(logging.WARNING)


@contextmanager
def overheard() -> Iterator[list[str]]:
    """Collect what ADK warns of within the block, in this context only."""
    logger = logging.getLogger(_LOGGER)
    if _ear not in logger.handlers:
        logger.addHandler(_ear)
    if logger.getEffectiveLevel() > logging.WARNING:
        logger.setLevel(logging.WARNING)
    heard: list[str] = []
    token = _heard.set(heard)
    try:
        yield heard
    finally:
        _heard.reset(token)
