"""Reasons that ADK's evaluators write only to their log, collected for the results."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_warnings: ContextVar[list[str] | None] = ContextVar("warnings", default=None)
_LOGGER = "google_adk"


class _WarningCollector(logging.Handler):
    """Adds a warning to the evaluation that caused it: tasks of a context share its list."""

    def emit(self, record: logging.LogRecord) -> None:
        messages = _warnings.get()
        if messages is not None:
            messages.append(record.getMessage())


_collector = _WarningCollector(logging.WARNING)


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Collect ADK's warnings of the current context within the block."""
    logger = logging.getLogger(_LOGGER)
    if _collector not in logger.handlers:
        logger.addHandler(_collector)
    if logger.getEffectiveLevel() > logging.WARNING:
        logger.setLevel(logging.WARNING)
    messages: list[str] = []
    token = _warnings.set(messages)
    try:
        yield messages
    finally:
        _warnings.reset(token)
