"""What is wrong with a query, where, and what was probably meant."""

from __future__ import annotations

from typing import ClassVar

from sessions_app.errors import BadInput


class QueryError(BadInput):
    """A query that cannot be meant as it stands.

    Attributes:
        start, end: offsets in the text of what is wrong.
        suggestion: the whole query as it was probably meant, or nothing.
    """

    code: ClassVar[str] = "bad_query"

    def __init__(self, message: str, start: int, end: int, *, hint: str = "", suggestion: str = "") -> None:
        super().__init__(message, hint=hint)
        self.start = start
        self.end = end
        self.suggestion = suggestion
