"""Live updates of lists: a page sends the marks of its rows, and gets the rows whose mark has changed.

Rows do not move under the reader: changed rows are replaced in place, and new rows are counted, not inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from zlib import crc32

from django.db.models import QuerySet

from sessions_app.store.database.pagination import PAGE_SIZE
from sessions_app.store.errors import BadInput

MAX_NEW = 99
"""Maximum rows counted as new."""


class Row(Protocol):
    """A row of a list."""

    @property
    def pk(self) -> Any:
        """Key of the row."""


M = TypeVar("M", bound=Row)
K = TypeVar("K", int, str)


@dataclass(frozen=True, slots=True)
class ShownRows(Generic[K]):
    """The rows that a page shows: the mark of each by primary key."""

    marks: dict[K, str]

    def __str__(self) -> str:
        """Return the form used in URLs."""
        return ",".join(f"{key}.{mark}" for key, mark in self.marks.items())

    def changed_rows(self, rows: Iterable[M], mark: Callable[[M], str]) -> list[M]:
        """Return the rows whose mark has changed."""
        return [row for row in rows if self.marks.get(row.pk) != mark(row)]

    def missing_keys(self, rows: Iterable[Row]) -> list[K]:
        """Return the keys of shown rows that are not among these."""
        present = {row.pk for row in rows}
        return [key for key in self.marks if key not in present]

    def after(self, changed: Iterable[M], missing: Iterable[K], mark: Callable[[M], str]) -> ShownRows[K]:
        """Return the shown rows after an update."""
        marks = {**self.marks, **{row.pk: mark(row) for row in changed}}
        return ShownRows({key: marks[key] for key in marks.keys() - set(missing)})


def shown_rows(rows: Iterable[M], mark: Callable[[M], str]) -> ShownRows[Any]:
    """Return the marks of a page that shows these rows."""
    return ShownRows({row.pk: mark(row) for row in rows})


def count_new_rows(lists: Iterable[QuerySet[Any]], since: float | None) -> int:
    """Return how many rows were created after the newest one that a page shows, at most `MAX_NEW`.

    Args:
        lists: the rows that the page does not show.
        since: creation time of the newest shown row, in epoch seconds; None: the page does not count new rows.
    """
    if since is None:
        return 0
    newer = (rows.filter(created_at__gt=since).order_by("-created_at") for rows in lists)
    return min(MAX_NEW, sum(rows[:MAX_NEW].count() for rows in newer))


def next_poll(rows_of_page: ShownRows[K], since: float | None, new_count: int = 0) -> dict[str, str]:
    """Return the parameters of the page's next poll; `new_count` is the number of new rows it already shows."""
    counting = {} if since is None else {"since": repr(since), "new_count": str(new_count)}
    return {"rows": str(rows_of_page), **counting}


def parse(text: str, key: Callable[[str], K]) -> ShownRows[K]:
    """Parse the shown rows that a page sends.

    Args:
        key: turns the text of a primary key into one.

    Raises:
        BadInput: the text was not made by `ShownRows`.
    """
    pairs = [item.split(".") for item in text.split(",")] if text else []
    try:
        marks = {key(name): mark for name, mark in pairs}
    except ValueError as error:
        raise _invalid_marks() from error
    if len(pairs) > 2 * PAGE_SIZE:
        raise _invalid_marks()
    return ShownRows(marks)


def row_mark(*facts: object) -> str:
    """Return a short hash of what a row shows."""
    return f"{crc32(repr(facts).encode('utf-8', 'surrogatepass')):x}"


def _invalid_marks() -> BadInput:
    return BadInput("The parameter `rows` does not come from this page.", hint="Load the page again.")
