"""Windows of a timeline that shows nothing but the hits of a query."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sessions_app.models import AgentSession
from sessions_app.search.query import Query
from sessions_app.timeline.event_window import WINDOW_SIZE, EventWindow
from sessions_app.timeline.session_search.scan import SessionSearch


@dataclass(frozen=True, slots=True)
class HitWindow(EventWindow):
    """Events that a query finds. `reach` is from where to where in the session no other one is found."""

    reach: tuple[int, int] = (0, 0)

    @property
    def first_shown(self) -> int:
        """seq down to which there are no hits but these."""
        return self.reach[0]

    @property
    def last_shown(self) -> int:
        """seq up to which there are no hits but these."""
        return self.reach[1]


def newest(session: AgentSession, query: Query) -> EventWindow:
    """Return the last hits."""
    return before(session, query, session.last_seq + 1)


def before(session: AgentSession, query: Query, seq: int) -> EventWindow:
    """Return the hits just before `seq`."""
    looked = SessionSearch(session, query).before(seq, WINDOW_SIZE + 1)
    shown = looked.rows[:WINDOW_SIZE][::-1]
    start = shown[0].seq if len(looked.rows) > WINDOW_SIZE else looked.to
    return HitWindow(shown, session.last_seq, (start, max(0, min(seq - 1, session.last_seq))))


def after(session: AgentSession, query: Query, seq: int) -> EventWindow:
    """Return the hits just after `seq`."""
    looked = SessionSearch(session, query).after(seq, WINDOW_SIZE + 1)
    shown = looked.rows[:WINDOW_SIZE]
    end = shown[-1].seq if len(looked.rows) > WINDOW_SIZE else looked.to
    return HitWindow(shown, session.last_seq, (seq + 1, end))


def around(session: AgentSession, query: Query, seq: int) -> EventWindow:
    """Return the hits before and after `seq`, and itself when it is one."""
    search, half = SessionSearch(session, query), WINDOW_SIZE // 2
    earlier, later = search.before(seq, half + 1), search.after(seq - 1, half + 1)
    start = earlier.rows[half - 1].seq if len(earlier.rows) > half else earlier.to
    end = later.rows[half - 1].seq if len(later.rows) > half else later.to
    shown = [*earlier.rows[:half][::-1], *later.rows[:half]]
    return HitWindow(shown, session.last_seq, (start, end))


def matching_seqs(session: AgentSession, query: Query, seqs: Collection[int]) -> set[int]:
    """Return which of some events, which stand close together, a query finds."""
    return set(SessionSearch(session, query).seqs_between(min(seqs), max(seqs)))
