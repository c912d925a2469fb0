"""Sessions looked through for what no index lists: the newest first, window by window, for a short time."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet

from sessions_app.models import AgentSession
from sessions_app.search.execution.time_budget import TimeBudget
from sessions_app.store import pagination

Rows = QuerySet[AgentSession]

FIRST_WINDOW = 250
"""Sessions that are looked at first: so few that a slow test of each ends soon. The next window is larger."""

SCAN_S = 0.025
"""Seconds after which a look ends, at the end of its window."""

ORDER_FIELD = "updated_at"


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a look found: all down to the cursor `to`, as far as so many were wanted.

    Attributes:
        rows: the newest of them first.
        to: where the next look goes on; empty: nothing is left.
        sessions: how many were looked at, in whole windows.
    """

    rows: list[AgentSession]
    to: str
    sessions: int


def scan(of: Rows, found: Rows, before: str, most: int, seconds: float | None = None) -> ScanResult:
    """Return the newest sessions found that are older than the cursor `before`, as far as a look comes.

    Args:
        of: the sessions that are looked at, of which an index has the order.
        found: those of them that are sought.
        before: where an earlier look ended; empty: at the newest.
        most: how many are wanted.
        seconds: how long a look may take; default: `LOOK_S`.

    Raises:
        BadInput: `before` is no cursor.
    """
    pace = TimeBudget(FIRST_WINDOW, SCAN_S if seconds is None else seconds)
    rows: list[AgentSession] = []
    place, looked = before, 0
    while len(rows) < most and pace.goes_on:
        end = _window_end(pagination.rows_before(of, ORDER_FIELD, place), pace.size)
        window = pagination.rows_before(found, ORDER_FIELD, place)
        if end:
            window = pagination.rows_down_to(window, ORDER_FIELD, end)
        rows += window[: most - len(rows)]
        if not end:
            return ScanResult(
                rows, pagination.cursor_of(rows[-1], ORDER_FIELD) if len(rows) == most else "", looked
            )
        place, looked = end, looked + pace.size
        pace.step()
    return ScanResult(
        rows, pagination.cursor_of(rows[-1], ORDER_FIELD) if len(rows) == most else place, looked
    )


def _window_end(rows: Rows, size: int) -> str:
    """Return the cursor of the last session of a window; empty: there are not so many."""
    last = rows.values_list(ORDER_FIELD, "pk")[size - 1 : size]
    return "".join(pagination.make_cursor(*place) for place in last)
