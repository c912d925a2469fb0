"""Redaction of credentials in log lines."""

from __future__ import annotations

import logging

from sessions_app.store.redaction import redact_text


class RedactingFormatter(logging.Formatter):
    """Log formatter that redacts credentials in the formatted record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with the traceback if there is one."""
        return redact_text(super().format(record))
