"""Keyset pagination of lists sorted by time, newest first."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db.models import Model, QuerySet

from sessions_app.store.errors import BadInput

M = TypeVar("M", bound=Model)

PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class Page(Generic[M]):
    """One page. `older` is the cursor of the next page, empty on the last one; `is_first` marks the newest page."""

    rows: list[M]
    older: str
    is_first: bool


def paginate(
    rows: QuerySet[M],
    field: str,
    before: str = "",
    *,
    key: Callable[[str], Any] | None = None,
    size: int = PAGE_SIZE,
) -> Page[M]:
    """Return the rows older than the cursor `before`, sorted by `field` and primary key.

    Args:
        field: a column of float epoch seconds.
        key: converts the cursor's text to a primary key; default: an integer.

    Raises:
        BadInput: `before` is not a valid cursor.
    """
    candidates = list(rows_before(rows, field, before, key=key)[: size + 1])
    page_rows = candidates[:size]
    return Page(page_rows, cursor_of(page_rows[-1], field) if len(candidates) > size else "", not before)


def rows_before(
    rows: QuerySet[M], field: str, before: str, *, key: Callable[[str], Any] | None = None
) -> QuerySet[M]:
    """Return the rows older than a cursor, newest first; all rows if it is empty. See `paginate`."""
    newest = rows.order_by(f"-{field}", "-pk")
    if not before:
        return newest
    timestamp, last_pk = _parse_cursor(before, key or integer_key)
    # `a < x OR (a = x AND …)` would not use the index.
    return newest.filter(**{f"{field}__lte": timestamp}).exclude(**{field: timestamp, "pk__gte": last_pk})


def rows_down_to(rows: QuerySet[M], field: str, last_pk: str) -> QuerySet[M]:
    """Return the rows from the newest down to the cursor's row, inclusive."""
    timestamp, pk = _parse_cursor(last_pk, integer_key)
    return rows.filter(**{f"{field}__gte": timestamp}).exclude(**{field: timestamp, "pk__lt": pk})


def cursor_of(row: Model, field: str) -> str:
    """Return the cursor of a row: the next page starts after it."""
    return make_cursor(getattr(row, field), row.pk)


def make_cursor(timestamp: float, pk: Any) -> str:
    """Return the pagination cursor that follows (timestamp, pk)."""
    return f"{timestamp!r}~{pk}"


def integer_key(text: str) -> int:
    """Return an integer primary key.

    Raises:
        ValueError: the text is not an integer, or out of the column's range.
    """
    if (key := int(text)) not in range(2**63):
        raise ValueError(f"{text!r} is not a primary key.")
    return key


def _parse_cursor(cursor: str, key: Callable[[str], Any]) -> tuple[float, Any]:
    timestamp, _, last_pk = cursor.partition("~")
    try:
        if math.isfinite(float(timestamp)) and last_pk:
            return float(timestamp), key(last_pk)
    except ValueError:
        pass
    raise BadInput(
        f"{cursor!r} is not a valid cursor of this list.", hint="Open the list again from its first page."
    )
