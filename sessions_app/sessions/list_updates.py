"""Lists that stay true while they are looked at: the rows on a page, each with a mark of how it was shown.

A page asks again and again with the marks of its rows; only rows whose mark has changed are sent, in their place.
Nothing moves under the reader: rows that would come in at the top are counted, not inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from zlib import crc32

from django.db.models import Model, QuerySet

from sessions_app.errors import BadInput
from sessions_app.store.pagination import PAGE_SIZE

MOST_NEW = 99
"""Rows counted as new; there may be more."""

M = TypeVar("M", bound=Model)
K = TypeVar("K", int, str)


@dataclass(frozen=True, slots=True)
class ShownRows(Generic[K]):
    """What a page shows: the mark of each row by its primary key."""

    marks: dict[K, str]

    def __str__(self) -> str:
        """Return the form that stands in an address."""
        return ",".join(f"{key}.{mark}" for key, mark in self.marks.items())

    def changed(self, rows: Iterable[M], mark: Callable[[M], str]) -> list[M]:
        """Return the rows that are shown otherwise than they are now."""
        return [row for row in rows if self.marks.get(row.pk) != mark(row)]

    def gone(self, rows: Iterable[Model]) -> list[K]:
        """Return the keys of shown rows that are not among these any more."""
        found = {row.pk for row in rows}
        return [key for key in self.marks if key not in found]

    def after(self, changed: Iterable[M], gone: Iterable[K], mark: Callable[[M], str]) -> ShownRows[K]:
        """Return what the page shows once it has heard of the changes."""
        marks = {**self.marks, **{row.pk: mark(row) for row in changed}}
        return ShownRows({key: marks[key] for key in marks.keys() - set(gone)})


def shown_rows(rows: Iterable[M], mark: Callable[[M], str]) -> ShownRows[Any]:
    """Return what a page shows that shows these rows."""
    return ShownRows({row.pk: mark(row) for row in rows})


def count_new_rows(rows: QuerySet[M], since: float | None, seen: ShownRows[K]) -> int:
    """Return how many rows were created after the newest that a page shows, at most `MOST_ARRIVED`.

    Args:
        rows: those that belong on the list.
        since: when the newest shown was created, in epoch seconds; None: the page does not hear of new ones.
        seen: what the page shows.
    """
    if since is None:
        return 0
    newer = rows.filter(created_at__gt=since).exclude(pk__in=seen.marks)
    return newer.order_by("-created_at")[:MOST_NEW].count()


def next_poll(seen: ShownRows[K], since: float | None, told: int = 0) -> dict[str, str]:
    """Return the parameters by which a page asks next how its list has changed; `told`: how many it knows came."""
    counting = {} if since is None else {"since": repr(since), "told": str(told)}
    return {"shown": str(seen), **counting}


def parse(text: str, key: Callable[[str], K]) -> ShownRows[K]:
    """Return what a page says that it shows.

    Args:
        key: turns the text of a primary key into one.

    Raises:
        BadInput: the text was not made by `Seen`.
    """
    pairs = [item.split(".") for item in text.split(",")] if text else []
    try:
        marks = {key(name): mark for name, mark in pairs}
    except ValueError as error:
        raise _invalid_marks() from error
    if len(pairs) > 2 * PAGE_SIZE:
        raise _invalid_marks()
    return ShownRows(marks)


def mark_of(*facts: object) -> str:
    """Return a short mark of what a row shows."""
    return f"{crc32(repr(facts).encode('utf-8', 'surrogatepass')):x}"


def _invalid_marks() -> BadInput:
    return BadInput("The rows shown are not told in the form of this page.", hint="Load the page again.")
