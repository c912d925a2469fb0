"""Scan of sessions for conditions that no index answers: newest first, window by window, for a short time."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet

from sessions_app.search.execution.time_budget import TimeBudget
from sessions_app.store.database import pagination
from sessions_app.store.models import AgentSession

Rows = QuerySet[AgentSession]

FIRST_WINDOW = 250
"""Sessions in the first window: so few that it ends soon even if tests are slow. Later windows are larger."""

SCAN_S = 0.025
"""Seconds after which a scan ends with its current window."""

ORDER_FIELD = "updated_at"


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The matches of a scan, complete down to the cursor `to` unless `most` were found.

    Attributes:
        rows: the matches, newest first.
        to: cursor from which the next scan resumes; empty: nothing is left.
        sessions: number of sessions scanned, in whole windows.
    """

    rows: list[AgentSession]
    to: str
    sessions: int


def scan(of: Rows, matching: Rows, before: str, most: int, seconds: float | None = None) -> ScanResult:
    """Return the newest matching sessions older than the cursor `before`, as far as a scan gets.

    Args:
        of: the sessions to scan, whose order an index has.
        matching: the matching ones of them.
        before: where an earlier scan ended; empty: at the newest.
        most: maximum number of matches.
        seconds: time budget; default: `SCAN_S`.

    Raises:
        BadInput: `before` is not a cursor.
    """
    budget = TimeBudget(FIRST_WINDOW, SCAN_S if seconds is None else seconds)
    rows: list[AgentSession] = []
    place, scanned = before, 0
    while len(rows) < most and budget.has_time:
        end = _window_end(pagination.rows_before(of, ORDER_FIELD, place), budget.size)
        window = pagination.rows_before(matching, ORDER_FIELD, place)
        rows += (pagination.rows_down_to(window, ORDER_FIELD, end) if end else window)[: most - len(rows)]
        place = end
        if not end:
            break
        scanned += budget.size
        budget.step()
    return ScanResult(
        rows, pagination.cursor_of(rows[-1], ORDER_FIELD) if len(rows) == most else place, scanned
    )


def _window_end(rows: Rows, size: int) -> str:
    """Return the cursor of the last session of a window; empty if the window is not full."""
    last = rows.values_list(ORDER_FIELD, "pk")[size - 1 : size]
    return "".join(pagination.make_cursor(*place) for place in last)
