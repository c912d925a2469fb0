"""Scans within a time budget: of events behind each session's index cursor, and of sessions that no index finds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from django.db.models import QuerySet

from sessions_app.search.execution.session_sets import FEW
from sessions_app.search.query.terms import StateTerm
from sessions_app.search.state_conditions import value_condition
from sessions_app.store import scopes
from sessions_app.store.database import pagination, tokens
from sessions_app.store.events import event_text
from sessions_app.store.index import index_backlog
from sessions_app.store.models import AgentSession, Event, StateChange


class TimeBudget:
    """The size of a scan's next batch, and whether there is time left for it."""

    def __init__(self, batch_size: int, seconds: float) -> None:
        """Take the size of the first batch and the seconds after which the scan ends with its current batch."""
        self.size = batch_size
        self._seconds = seconds
        self.has_time = True
        self._began = self._stepped = _current_time()

    def step(self) -> None:
        """Record that a batch was scanned. The next one is four times as large if it was quick."""
        now = _current_time()
        self.has_time = now - self._began < self._seconds
        if (now - self._stepped) * 8 < self._seconds:
            self.size *= 4
        self._stepped = now


def _current_time() -> float:
    return time.monotonic()


MAX_SESSIONS = 200
MAX_EVENTS = 500
"""Maximum sessions and events scanned. A store that is being indexed for the first time has more."""


def count_unindexed() -> int:
    """Return the number of sessions that are not indexed; 0 if they are few enough to scan."""
    waiting = index_backlog.sessions().order_by("-pk")
    newest = list(waiting.values_list("indexed_seq", "last_seq")[:MAX_SESSIONS])
    if len(newest) == MAX_SESSIONS:
        return waiting.count()
    events = sum(last - max(indexed, 0) for indexed, last in newest)
    return len(newest) if events > MAX_EVENTS else 0


@dataclass
class UnindexedTail:
    """The unindexed events of all sessions, or of one."""

    session: AgentSession | None = None
    _texts: dict[tuple[int, int], str] = field(default_factory=dict)

    @cached_property
    def sessions(self) -> dict[int, int]:
        """Index cursors by primary key, newest sessions first."""
        rows = index_backlog.sessions()
        if self.session is not None:
            rows = rows.filter(pk=self.session.pk)
        return dict(rows.order_by("-pk").values_list("pk", "indexed_seq")[:MAX_SESSIONS])

    @property
    def has_all(self) -> bool:
        """Return whether the tail is complete."""
        return len(self.sessions) < MAX_SESSIONS

    @cached_property
    def events(self) -> list[Event]:
        """The events behind the cursors, newest sessions first."""
        if not self.sessions:
            return []
        rows = Event.objects.filter(index_backlog.BEHIND_CURSOR, session__in=self.sessions)
        return list(rows.only(*event_text.COLUMNS).order_by("-session", "-seq")[:MAX_EVENTS])

    def events_with_phrase(self, phrase: tokens.Phrase) -> list[Event]:
        """Return the events that contain a phrase."""
        return [event for event in self.events if self.holds(event, phrase)]

    def holds(self, event: Event, phrase: tokens.Phrase) -> bool:
        """Return whether an event contains a phrase."""
        text = self._event_text(event)
        if not all(token in text for token in phrase.tokens):
            return False  # fast: only texts that may match are split into words
        return tokens.contains_phrase(tokens.tokenize(text), phrase)

    def events_with_trait(self, matches: Callable[[event_text.Trait], bool]) -> list[Event]:
        """Return the events with a trait."""
        return [event for event in self.events if any(map(matches, _event_traits(event)))]

    def owners(self, term: StateTerm) -> set[int]:
        """Return the owners of state that had a matching value."""
        if not self.sessions:
            return set()
        rows = StateChange.objects.filter(
            index_backlog.BEHIND_CURSOR,
            session__in=self.sessions,
            scope=term.scope,
            key_id=scopes.key_id(term.key),
            removed=False,
        )
        return set(rows.filter(value_condition(term)).values_list("owner_id", flat=True)[:FEW])

    def _event_text(self, event: Event) -> str:
        key = (event.session_id, event.seq)
        if key not in self._texts:
            self._texts[key] = tokens.normalize(event_text.data_text(event.data))
        return self._texts[key]


def _event_traits(event: Event) -> list[event_text.Trait]:
    return event_text.event_traits(event.kind, event.author, event.branch, event.summary)


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
