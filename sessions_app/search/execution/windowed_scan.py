"""Scan of sessions for conditions that no index answers: in a list's order, by windows, for a short time."""

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

NEWEST_FIRST = pagination.Order("-updated_at")


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The matches of a scan, complete up to the cursor `to` unless `limit` were found.

    Attributes:
        rows: the matches, sorted.
        to: cursor from which the next scan resumes; empty: nothing is left.
        sessions: number of sessions scanned, in whole windows.
    """

    rows: list[AgentSession]
    to: str
    sessions: int


def scan(
    of: Rows,
    matching: Rows,
    before: str,
    limit: int,
    seconds: float | None = None,
    *,
    order: pagination.Order = NEWEST_FIRST,
) -> ScanResult:
    """Return the first matching sessions after the cursor `before`, as far as a scan gets.

    Args:
        of: the sessions to scan, whose order an index has.
        matching: the matching ones of them.
        before: where an earlier scan ended; empty: at the first.
        limit: maximum number of matches.
        seconds: time budget; default: `SCAN_S`.
        order: order of the sessions.

    Raises:
        BadInput: `before` is not a cursor of the order.
    """
    budget = TimeBudget(FIRST_WINDOW, SCAN_S if seconds is None else seconds)
    rows: list[AgentSession] = []
    cursor, scanned = before, 0
    while len(rows) < limit and budget.has_time:
        end = _window_end(pagination.rows_after(of, order, cursor), order, budget.size)
        window = pagination.rows_after(matching, order, cursor)
        rows += (pagination.rows_up_to(window, order, end) if end else window)[: limit - len(rows)]
        cursor = end
        if not end:
            break
        scanned += budget.size
        budget.step()
    return ScanResult(rows, order.cursor(rows[-1]) if len(rows) == limit else cursor, scanned)


def _window_end(rows: Rows, order: pagination.Order, size: int) -> str:
    """Return the cursor of the last session of a window; empty if the window is not full."""
    last = rows.values_list(*order.fields)[size - 1 : size]
    return "".join(pagination.make_cursor(values) for values in last)
