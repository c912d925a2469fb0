"""The error of a query, with its position and a suggested correction."""

from __future__ import annotations

from typing import ClassVar

from sessions_app.errors import BadInput


class QueryError(BadInput):
    """An invalid query.

    Attributes:
        start, end: offsets of the invalid part of the text.
        suggestion: the whole corrected query, or empty.
    """

    code: ClassVar[str] = "bad_query"

    def __init__(self, message: str, start: int, end: int, *, hint: str = "", suggestion: str = "") -> None:
        super().__init__(message, hint=hint)
        self.start = start
        self.end = end
        self.suggestion = suggestion
