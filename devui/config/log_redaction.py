"""Log lines without the credentials that the texts of errors quote."""

from __future__ import annotations

import logging

from sessions_app.redaction import redact_text


class RedactingFormatter(logging.Formatter):
    """Formats a record as its base class does, and redacts credentials in the result."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with the traceback if there is one."""
        return redact_text(super().format(record))
