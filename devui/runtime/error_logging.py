"""One line in the log for an agent's error. The run's row and its page keep the error whole, traceback and all."""

from __future__ import annotations

import logging

from devui.runtime.exception_text import message_of

ERROR_LOGGERS = ("google_adk.google.adk.runners", "google_adk.google.adk.workflow._node_runner")
"""ADK's loggers that tell of an error in an agent's code, each with the whole traceback."""


class TracebackFilter(logging.Filter):
    """Replaces a record's traceback by the error's type and message, unless everything is to be logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten the record; none is dropped."""
        if record.exc_info and record.exc_info[1] and not logging.getLogger().isEnabledFor(logging.DEBUG):
            error = record.exc_info[1]
            record.msg = f"{record.getMessage().rstrip('.')}: {type(error).__name__}: {message_of(error)}"
            record.args, record.exc_info = (), None
        return True


def shorten_agent_errors() -> None:
    """Log the errors of agents in one line each."""
    for name in ERROR_LOGGERS:
        logging.getLogger(name).addFilter(TracebackFilter())
