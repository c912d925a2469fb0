"""One log line per agent error. The run's row and its page keep the whole traceback."""

from __future__ import annotations

import logging

from devui.runtime.exception_text import message_of

ERROR_LOGGERS = ("google_adk.google.adk.runners", "google_adk.google.adk.workflow._node_runner")
"""ADK's loggers that log errors of an agent's code, each with the whole traceback."""


class TracebackFilter(logging.Filter):
    """Replaces a record's traceback with the error's type and message, unless the log level is DEBUG."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten the record; no record is dropped."""
        if record.exc_info and record.exc_info[1] and not logging.getLogger().isEnabledFor(logging.DEBUG):
            error = record.exc_info[1]
            record.msg = f"{record.getMessage().rstrip('.')}: {type(error).__name__}: {message_of(error)}"
            record.args, record.exc_info = (), None
        return True


def shorten_agent_errors() -> None:
    """Log each error of an agent in one line."""
    for name in ERROR_LOGGERS:
        logging.getLogger(name).addFilter(TracebackFilter())
