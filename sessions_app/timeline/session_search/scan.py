"""Scan of a session for the hits of a query, in batches within a time budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db.models import QuerySet

from sessions_app.search.execution import event_queries
from sessions_app.search.execution.scans import TimeBudget
from sessions_app.search.query.terms import Query
from sessions_app.store.events import event_text
from sessions_app.store.models import AgentSession, Event, SessionTrait

INDEXED_FIELDS = ("author", "tool", "branch")
"""Fields whose values in a session are all indexed."""

FIRST_BATCH = 4_000
"""Events in the first batch; the batch size quadruples while batches are fast."""

SCAN_S, LONG_SCAN_S = 0.04, 0.12
"""Time budget in seconds of one of several scans, and of a scan that is the whole request."""

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class EventScan(Generic[Row]):
    """Hits up or down to the seq `to`, limited in number; `is_whole`: the scan reached the end."""

    rows: list[Row]
    to: int
    is_whole: bool


class SessionSearch:
    """A query within a session, scanned in batches from a position.

    A scan is short if most events match, and fast if an index answers it.
    """

    def __init__(
        self,
        session: AgentSession,
        query: Query,
        seconds: float | None = None,
        *,
        first_batch: int | None = None,
    ) -> None:
        """Prepare a scan with a time budget in seconds; defaults: `SCAN_S` and `FIRST_BATCH`."""
        self._first_batch = FIRST_BATCH if first_batch is None else first_batch
        self._seconds = SCAN_S if seconds is None else seconds
        self._last = session.last_seq
        self._low, self._high = _seq_bounds(session, query)
        self._events = event_queries.EventQuery(session, query)

    def after(self, seq: int, limit: int) -> EventScan[Event]:
        """Return the first hits after `seq`, without their bodies."""
        return self._scan_upwards(seq, limit, self._matching_rows)

    def before(self, seq: int, limit: int) -> EventScan[Event]:
        """Return the last hits before `seq`, the latest first."""
        return self._scan_downwards(
            seq, limit, lambda first, last: self._matching_rows(first, last).reverse()
        )

    def seqs_after(self, seq: int, limit: int) -> EventScan[int]:
        """Return the seqs of the first hits after `seq`."""
        return self._scan_upwards(seq, limit, self.seqs_between)

    def seqs_before(self, seq: int, limit: int) -> EventScan[int]:
        """Return the seqs of the last hits before `seq`, the latest first."""
        return self._scan_downwards(seq, limit, lambda first, last: self.seqs_between(first, last).reverse())

    def seqs_between(self, first: int, last: int) -> QuerySet[Event, int]:
        """Return the seqs of the hits between two seqs, inclusive."""
        return self._matching_rows(first, last).values_list("seq", flat=True)

    def _matching_rows(self, first: int, last: int) -> QuerySet[Event]:
        return self._events.matching_events(first, last).defer("data", "private")

    def _scan_upwards(
        self, seq: int, limit: int, ask: Callable[[int, int], QuerySet[Event, Row]]
    ) -> EventScan[Row]:
        cursor, pace = max(seq, self._low - 1), TimeBudget(self._first_batch, self._seconds)
        rows: list[Row] = []
        while cursor < self._high and len(rows) < limit and pace.has_time:
            end = min(cursor + pace.size, self._high)
            rows += ask(cursor + 1, end)[: limit - len(rows)]
            cursor = end
            pace.step()
        is_whole = cursor >= self._high and len(rows) < limit
        return EventScan(rows, self._last if is_whole else cursor, is_whole)

    def _scan_downwards(
        self, seq: int, limit: int, ask: Callable[[int, int], QuerySet[Event, Row]]
    ) -> EventScan[Row]:
        cursor, pace = min(seq, self._high + 1), TimeBudget(self._first_batch, self._seconds)
        rows: list[Row] = []
        while cursor > self._low and len(rows) < limit and pace.has_time:
            start = max(self._low, cursor - pace.size)
            rows += ask(start, cursor - 1)[: limit - len(rows)]
            cursor = start
            pace.step()
        is_whole = cursor <= self._low and len(rows) < limit
        return EventScan(rows, 1 if is_whole else cursor, is_whole)


def _seq_bounds(session: AgentSession, query: Query) -> tuple[int, int]:
    """Return the range of seqs that can contain hits, from the index of authors, tools and branches.

    The index has the newest event of each value. Values that it lacks can only occur in events not indexed yet.
    """
    low, high = 1, session.last_seq
    pairs = {
        (term.name, event_text.truncate_value(term.value))
        for term in query.fields
        if term.name in INDEXED_FIELDS and not term.negated
    }
    if not pairs:
        return low, high
    traits = SessionTrait.objects.filter(session=session, name__in=INDEXED_FIELDS)
    newest_seqs = {
        (name, value): seq
        for name, value, seq in traits.filter(value__in=[value for _, value in pairs]).values_list(
            "name", "value", "seq"
        )
    }
    unread = session.indexed_seq < session.last_seq
    for pair in pairs:
        if pair not in newest_seqs:
            low = max(low, session.indexed_seq + 1)
        elif not unread:
            high = min(high, newest_seqs[pair])
    return low, high
