"""Texts of exceptions: safe to print, store and send, and short in the log.

An agent's error is one line in the log. The run's row and its page keep the whole traceback.
"""

from __future__ import annotations

import logging

from sessions_app.store import scopes

ERROR_LOGGERS = ("google_adk.google.adk.runners", "google_adk.google.adk.workflow._node_runner")
"""ADK's loggers that log errors of an agent's code, each with the whole traceback."""


def safe_message(error: BaseException) -> str:
    """Return an exception's message without credentials, fit to be stored and sent.

    Falls back to the type's name if the message is empty or `__str__` raises.
    """
    try:
        message = str(error)
    except Exception:  # an agent's own `__str__`
        message = ""
    return scopes.clean_error(message) or type(error).__name__


def without_credentials(error: Exception) -> Exception:
    """Return the exception, or a copy with the same type name whose message contains no credentials.

    ADK's server sends an exception's type name and message to the client.
    """
    message = safe_message(error)
    try:
        if str(error) in (message, ""):
            return error
    except Exception:  # an agent's own `__str__`
        return error
    redacted: Exception = type(type(error).__name__, (Exception,), {})(message)
    return redacted.with_traceback(error.__traceback__)


class TracebackFilter(logging.Filter):
    """Replaces a record's traceback with the error's type and message, unless the log level is DEBUG."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten the record; no record is dropped."""
        if record.exc_info and record.exc_info[1] and not logging.getLogger().isEnabledFor(logging.DEBUG):
            error = record.exc_info[1]
            record.msg = f"{record.getMessage().rstrip('.')}: {type(error).__name__}: {safe_message(error)}"
            record.args, record.exc_info = (), None
        return True


def shorten_agent_errors() -> None:
    """Log each error of an agent in one line."""
    for name in ERROR_LOGGERS:
        logging.getLogger(name).addFilter(TracebackFilter())
