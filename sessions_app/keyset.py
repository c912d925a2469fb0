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


def page(
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
    newest = rows.order_by(f"-{field}", "-pk")
    if before:
        moment, last = _parse(before, key or integer_key)
        # Not `a < x OR (a = x AND …)`: no database seeks an index by that.
        newest = newest.filter(**{f"{field}__lte": moment}).exclude(**{field: moment, "pk__gte": last})
    found = list(newest[: size + 1])
    shown = found[:size]
    older = f"{getattr(shown[-1], field)!r}~{shown[-1].pk}" if len(found) > size else ""
    return Page(shown, older, not before)


def integer_key(text: str) -> int:
    """Return an integer primary key.

    Raises:
        ValueError: it is none that a store has.
    """
    if (key := int(text)) not in range(2**63):
        raise ValueError(f"{text!r} is no primary key.")
    return key


def _parse(cursor: str, key: Callable[[str], Any]) -> tuple[float, Any]:
    moment, _, last = cursor.partition("~")
    try:
        if math.isfinite(float(moment)) and last:
            return float(moment), key(last)
    except ValueError:
        pass
    raise BadInput(f"{cursor!r} is no cursor of this list.", hint="Open the list again and go on from there.")
