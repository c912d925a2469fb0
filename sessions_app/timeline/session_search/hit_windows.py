"""Windows of a timeline that shows only the hits of a query."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sessions_app.search.query.terms import Query
from sessions_app.store.models import AgentSession
from sessions_app.timeline.event_window import WINDOW_SIZE, EventWindow
from sessions_app.timeline.session_search.scan import SessionSearch


@dataclass(frozen=True, slots=True)
class HitWindow(EventWindow):
    """Hits of a query. `reach` is the range of seqs that contains no other hits."""

    reach: tuple[int, int] = (0, 0)

    @property
    def first_shown(self) -> int:
        """First seq of the range without other hits."""
        return self.reach[0]

    @property
    def last_shown(self) -> int:
        """Last seq of the range without other hits."""
        return self.reach[1]


def newest(session: AgentSession, query: Query) -> EventWindow:
    """Return the last hits."""
    return before(session, query, session.last_seq + 1)


def before(session: AgentSession, query: Query, seq: int) -> EventWindow:
    """Return the hits just before `seq`."""
    scan = SessionSearch(session, query).before(seq, WINDOW_SIZE + 1)
    hits = scan.rows[:WINDOW_SIZE][::-1]
    start = hits[0].seq if len(scan.rows) > WINDOW_SIZE else scan.to
    return HitWindow(hits, session.last_seq, (start, max(0, min(seq - 1, session.last_seq))))


def after(session: AgentSession, query: Query, seq: int) -> EventWindow:
    """Return the hits just after `seq`."""
    scan = SessionSearch(session, query).after(seq, WINDOW_SIZE + 1)
    hits = scan.rows[:WINDOW_SIZE]
    end = hits[-1].seq if len(scan.rows) > WINDOW_SIZE else scan.to
    return HitWindow(hits, session.last_seq, (seq + 1, end))


def around(session: AgentSession, query: Query, seq: int) -> EventWindow:
    """Return the hits before and after `seq`, including itself."""
    search, half = SessionSearch(session, query), WINDOW_SIZE // 2
    earlier, later = search.before(seq, half + 1), search.after(seq - 1, half + 1)
    start = earlier.rows[half - 1].seq if len(earlier.rows) > half else earlier.to
    end = later.rows[half - 1].seq if len(later.rows) > half else later.to
    hits = [*earlier.rows[:half][::-1], *later.rows[:half]]
    return HitWindow(hits, session.last_seq, (start, end))


def matching_seqs(session: AgentSession, query: Query, seqs: Collection[int]) -> set[int]:
    """Return the seqs that match a query. The seqs should be close together."""
    return set(SessionSearch(session, query).seqs_between(min(seqs), max(seqs)))
