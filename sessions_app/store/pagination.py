"""Pages of a list that is sorted by a time, newest first, found by where the page before ended."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db.models import Model, QuerySet

from sessions_app.errors import BadInput

M = TypeVar("M", bound=Model)

PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class Page(Generic[M]):
    """One page. `older` is the cursor of the next one, empty on the last; `is_first` tells the newest page."""

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
        key: turns the cursor's text into a primary key; default: an integer.

    Raises:
        BadInput: `before` is no cursor.
    """
    found = list(rows_before(rows, field, before, key=key)[: size + 1])
    shown = found[:size]
    return Page(shown, cursor_of(shown[-1], field) if len(found) > size else "", not before)


def rows_before(
    rows: QuerySet[M], field: str, before: str, *, key: Callable[[str], Any] | None = None
) -> QuerySet[M]:
    """Return the rows older than a cursor, newest first; all of them when it is empty. Else as `page`."""
    newest = rows.order_by(f"-{field}", "-pk")
    if not before:
        return newest
    moment, last = _parse_cursor(before, key or integer_key)
    # Not `a < x OR (a = x AND …)`: no database seeks an index by that.
    return newest.filter(**{f"{field}__lte": moment}).exclude(**{field: moment, "pk__gte": last})


def rows_down_to(rows: QuerySet[M], field: str, last: str) -> QuerySet[M]:
    """Return the rows down to that of a cursor, and itself."""
    moment, pk = _parse_cursor(last, integer_key)
    return rows.filter(**{f"{field}__gte": moment}).exclude(**{field: moment, "pk__lt": pk})


def cursor_time(cursor: str) -> float:
    """Return the time of the row that a cursor was made of, in epoch seconds."""
    return _parse_cursor(cursor, integer_key)[0]


def cursor_of(row: Model, field: str) -> str:
    """Return what the rows behind a row are older than."""
    return make_cursor(getattr(row, field), row.pk)


def make_cursor(moment: float, pk: Any) -> str:
    """Return what the rows behind a moment and a primary key are older than."""
    return f"{moment!r}~{pk}"


def integer_key(text: str) -> int:
    """Return an integer primary key.

    Raises:
        ValueError: it is none that a store has.
    """
    if (key := int(text)) not in range(2**63):
        raise ValueError(f"{text!r} is no primary key.")
    return key


def _parse_cursor(cursor: str, key: Callable[[str], Any]) -> tuple[float, Any]:
    moment, _, last = cursor.partition("~")
    try:
        if math.isfinite(float(moment)) and last:
            return float(moment), key(last)
    except ValueError:
        pass
    raise BadInput(f"{cursor!r} is no cursor of this list.", hint="Open the list again and go on from there.")
