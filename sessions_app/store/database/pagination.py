"""Keyset pagination of lists in any order that an index has."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import merge
from typing import Any, Generic, TypeVar

from django.db.models import F, Field, Model, Q, QuerySet

from sessions_app.store.errors import BadInput

M = TypeVar("M", bound=Model)

PAGE_SIZE = 50

MAX_COUNTED = 10_000
"""Rows of a list that are counted."""

BATCH_SIZE = 200
"""Rows of a batch of an export."""


class Order:
    """Order of a list: by columns or annotations without nulls, then by primary key.

    `Order("app_name", "-updated_at")` sorts by app, the newest rows of each first, as `order_by` does. Unless the last
    name is the primary key, rows with equal columns follow by it, in the direction of the last column.
    """

    def __init__(self, *names: str) -> None:
        """Take the names; a minus sign in front means descending."""
        last = "-pk" if names[-1].startswith("-") else "pk"
        self.names = names if names[-1] == last else (*names, last)

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same order."""
        return isinstance(other, Order) and self.names == other.names

    def __hash__(self) -> int:
        """Return a hash of the names."""
        return hash(self.names)

    @property
    def fields(self) -> tuple[str, ...]:
        """The names without direction."""
        return tuple(name.removeprefix("-") for name in self.names)

    def reverse(self) -> Order:
        """Return the opposite order."""
        return Order(*map(_reverse_name, self.names))

    def cursor(self, row: Model) -> str:
        """Return the cursor of a row: the next page starts after it."""
        return make_cursor([getattr(row, name) for name in self.fields])


def _reverse_name(name: str) -> str:
    return name.removeprefix("-") if name.startswith("-") else f"-{name}"


@dataclass(frozen=True, slots=True)
class Page(Generic[M]):
    """One page.

    Attributes:
        rows: its rows.
        next: cursor of the next page; empty on the last one.
        is_first: whether it is the first page.
        total: rows of all pages, counted up to `MAX_COUNTED` + 1; None: not counted.
    """

    rows: list[M]
    next: str
    is_first: bool
    total: int | None = None


def paginate(
    rows: QuerySet[M], order: Order, cursor: str = "", *, size: int = PAGE_SIZE, is_counted: bool = False
) -> Page[M]:
    """Return the page after a cursor; the first page if it is empty.

    One query, and one more if the rows are to be counted and are not all on this page.

    Raises:
        BadInput: `cursor` is not a cursor of this order.
    """
    candidates = list(rows_after(rows, order, cursor)[: size + 1])
    page_rows = candidates[:size]
    next_cursor = order.cursor(page_rows[-1]) if len(candidates) > size else ""
    is_only_page = not cursor and not next_cursor
    total = len(page_rows) if is_only_page else count_rows(rows) if is_counted else None
    return Page(page_rows, next_cursor, not cursor, total)


def count_rows(rows: QuerySet[M], limit: int = MAX_COUNTED) -> int:
    """Return the number of rows, at most `limit` + 1."""
    return rows.order_by().values("pk")[: limit + 1].count()


def paginate_together(
    lists: Sequence[QuerySet[Any]],
    order: Order,
    cursor: str = "",
    *,
    size: int = PAGE_SIZE,
    is_counted: bool = False,
) -> Page[Any]:
    """Return the page after a cursor of several lists that are shown as one, sorted by the order's first column.

    The cursor has that of each list. One query a list, and one more a list if the rows are counted.

    Raises:
        BadInput: `cursor` is not a cursor of these lists and this order.
    """
    cursors = _parse_cursors(cursor, len(lists))
    pages = [
        [(index, row) for row in rows_after(rows, order, cursors[index])[: size + 1]]
        for index, rows in enumerate(lists)
    ]
    merged = list(
        merge(
            *pages,
            key=lambda entry: getattr(entry[1], order.fields[0]),
            reverse=order.names[0].startswith("-"),
        )
    )
    cursors.update({index: order.cursor(row) for index, row in merged[:size]})
    next_cursor = make_cursor([cursors[index] for index in range(len(lists))]) if len(merged) > size else ""
    is_only_page = not cursor and not next_cursor
    total = len(merged) if is_only_page else sum(map(count_rows, lists)) if is_counted else None
    return Page([row for _, row in merged[:size]], next_cursor, not cursor, total)


def _parse_cursors(cursor: str, count: int) -> dict[int, str]:
    """Return the cursor of each of several lists; without a cursor they are empty."""
    try:
        cursors = json.loads(cursor) if cursor else [""] * count
    except (ValueError, RecursionError):
        cursors = None
    if not isinstance(cursors, list) or [type(part) for part in cursors] != [str] * count:
        raise _invalid_cursor(cursor)
    return dict(enumerate(cursors))


def read_batches(rows: QuerySet[M], order: Order) -> Iterator[list[M]]:
    """Yield all rows in batches, as far as they are asked for."""
    return follow_pages(partial(paginate, rows, order, size=BATCH_SIZE))


def follow_pages(read_page: Callable[[str], Page[M]]) -> Iterator[list[M]]:
    """Yield the rows of the pages that a function returns for their cursors, as far as they are asked for."""
    page = read_page("")
    yield page.rows
    while page.next:
        page = read_page(page.next)
        yield page.rows


def rows_after(rows: QuerySet[M], order: Order, cursor: str) -> QuerySet[M]:
    """Return the sorted rows after a cursor; all rows if it is empty. See `paginate`."""
    sorted_rows = rows.order_by(*order.names)
    return _rows_from(sorted_rows, order, _parse_cursor(rows, order, cursor)) if cursor else sorted_rows


def rows_up_to(rows: QuerySet[M], order: Order, cursor: str) -> QuerySet[M]:
    """Return the rows up to the cursor's row, inclusive."""
    return _rows_from(rows, order.reverse(), _parse_cursor(rows, order, cursor), is_inclusive=True)


def _rows_from(
    rows: QuerySet[M], order: Order, values: Sequence[Any], *, is_inclusive: bool = False
) -> QuerySet[M]:
    """Return the rows that follow a row with these values; `is_inclusive`: also that row."""
    first, value = order.names[0], values[0]
    bound = Q(**{f"{first.removeprefix('-')}__{'lte' if first.startswith('-') else 'gte'}": value})
    # `a < x OR (a = x AND …)` would not use the index.
    return rows.filter(bound).exclude(
        Q(**{order.fields[0]: value}) & _not_after(order.names[1:], values[1:], is_inclusive=is_inclusive)
    )


def _not_after(names: Sequence[str], values: Sequence[Any], *, is_inclusive: bool) -> Q:
    """Return the condition that a row does not follow one with these values."""
    name, field = names[0], names[0].removeprefix("-")
    precedes = f"{field}__{'gt' if name.startswith('-') else 'lt'}"
    if len(names) == 1:
        return Q(**{precedes if is_inclusive else f"{precedes}e": values[0]})
    equal = Q(**{field: values[0]}) & _not_after(names[1:], values[1:], is_inclusive=is_inclusive)
    return Q(**{precedes: values[0]}) | equal


def make_cursor(values: Sequence[Any]) -> str:
    """Return the cursor of a row with these values of the order's fields."""
    return json.dumps(values, separators=(",", ":"))


def integer_key(text: str) -> int:
    """Return an integer primary key.

    Raises:
        ValueError: the text is not an integer, or out of the column's range.
    """
    if (key := int(text)) not in range(2**63):
        raise ValueError(f"{text!r} is not a primary key.")
    return key


def _parse_cursor(rows: QuerySet[M], order: Order, cursor: str) -> list[Any]:
    try:
        values = json.loads(cursor)
        if isinstance(values, list) and len(values) == len(order.fields):
            fields = (F(name).resolve_expression(rows.query).output_field for name in order.fields)
            return [_check_value(value, field) for value, field in zip(values, fields, strict=True)]
    except (ValueError, RecursionError):
        pass
    raise _invalid_cursor(cursor)


def _invalid_cursor(cursor: str) -> BadInput:
    return BadInput(
        f"{cursor!r} is not a valid cursor of this list.", hint="Open the list again from its first page."
    )


def _check_value(value: Any, field: Field[Any, Any]) -> Any:
    """Return a value of a cursor.

    Raises:
        ValueError: the field cannot have it.
    """
    kind = _TYPES.get(field.get_internal_type(), int)
    if type(value) is not kind or not _is_in_range(value):
        raise ValueError(f"{value!r} is not a value of {field.get_internal_type()}.")
    return value


def _is_in_range(value: Any) -> bool:
    """Return whether a column can hold a value: no NUL (PostgreSQL) or lone surrogates, finite, of 64 bits."""
    if isinstance(value, str):
        return "\0" not in value and value.encode("utf-8", "ignore").decode() == value
    return math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63


_TYPES: dict[str, type] = {"FloatField": float, "CharField": str, "TextField": str}
