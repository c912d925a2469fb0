"""Hits of a query in a session: their count, and the neighbors of a position."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from sessions_app.search.execution import event_queries
from sessions_app.search.query.terms import Query
from sessions_app.store import scopes
from sessions_app.store.models import AgentSession
from sessions_app.timeline.session_search.scan import LONG_SCAN_S, EventScan, SessionSearch

MAX_COUNTED = 10_000
"""Maximum number of hits that are counted."""

MAX_NEIGHBORS = 20
"""Hits on either side of the selected event that are returned for fast stepping."""

MAX_LISTED_RANGE = 2_000
"""Maximum length of a seq range whose hits are listed, if not all hits are known."""


class RequestedPart(StrEnum):
    """The requested part of the result, if the rest is known."""

    COUNT = "count"
    EARLIER = "earlier"
    LATER = "later"


class CountProgress(NamedTuple):
    """Progress of counting in earlier requests: seq reached, and hits so far."""

    to: int = 0
    hits: int = 0


NOT_COUNTED = CountProgress()


@dataclass(frozen=True, slots=True)
class HitsRequest:
    """Position of a search in a session, and the progress of earlier requests.

    Attributes:
        selected: seq of the selected event, 0 if there is none.
        at: seq from which the next hit is searched if no event is selected.
        stretch: range of seqs whose hits are listed.
        count_progress: progress of counting.
        scan_positions: progress of the search before and after the selected event (`HitsBeside.place`).
        part: the requested part; None: all.
    """

    selected: int = 0
    at: int = 0
    stretch: tuple[int, int] = (0, 0)
    count_progress: CountProgress = NOT_COUNTED
    scan_positions: tuple[int, int] = (0, 0)
    part: RequestedPart | None = None

    def wants(self, part: RequestedPart) -> bool:
        """Tell whether a part is requested."""
        return self.part in (None, part)

    @property
    def before(self) -> int:
        """The seq before which earlier hits are searched."""
        return self.selected or self.at

    @property
    def behind(self) -> int:
        """The seq after which later hits are searched; if no event is selected, `at` itself may be a hit."""
        return self.selected or max(0, self.at - 1)


EVERYTHING = HitsRequest()


@dataclass(frozen=True, slots=True)
class HitsBeside:
    """Hits on one side of a position, nearest first, wrapping around at the end of the session.

    `place` is the seq reached if no hit was found yet; 0: everything was scanned.
    """

    seqs: list[int] = field(default_factory=list)
    place: int = 0

    @property
    def nearest(self) -> int:
        """seq of the nearest hit, 0 if there is none."""
        return self.seqs[0] if self.seqs else 0


@dataclass(frozen=True, slots=True)
class SessionHits:
    """Hits of a query in a session.

    Attributes:
        query: the query.
        count: number of hits so far; `capped`: there are more than the maximum.
        number: number of the selected hit, from 1; 0 if none is selected or it was not counted.
        earlier, later: the hits before and after the selected event.
        among: seqs of the hits in the requested range.
        count_progress: progress of counting, for the next request; None if all were counted at once.
        is_all: counting is complete or has reached the maximum.
        last_seq: seq of the session's last event.
    """

    query: Query
    count: int
    capped: bool
    number: int
    earlier: HitsBeside
    later: HitsBeside
    among: list[int]
    count_progress: CountProgress | None
    is_all: bool
    last_seq: int

    @property
    def previous(self) -> int:
        """seq of the previous hit, 0 if none is known."""
        return self.earlier.nearest

    @property
    def next(self) -> int:
        """seq of the next hit, 0 if none is known."""
        return self.later.nearest

    @property
    def words(self) -> list[str]:
        """The words and phrases to highlight."""
        field_values = [
            term.value for term in self.query.fields if term.name in ("tool", "error") and not term.negated
        ]
        return [word.text for word in self.query.words if not word.negated] + field_values

    @property
    def words_json(self) -> str:
        """The words as JSON, for scripts."""
        return scopes.dumps(self.words)

    @property
    def ignored_terms(self) -> list[str]:
        """The terms of the query that do not apply to events."""
        return [str(term) for term in event_queries.session_terms(self.query)]


def find_hits(session: AgentSession, query: Query, request: HitsRequest = EVERYTHING) -> SessionHits:
    """Return the requested part of a query's hits in a session."""
    search = SessionSearch(session, query, LONG_SCAN_S if request.part else None)
    count_progress, earlier, later = request.count_progress, HitsBeside(), HitsBeside()
    hits: EventScan[int] = EventScan([], count_progress.to, is_whole=False)
    if request.wants(RequestedPart.COUNT):
        hits = search.seqs_after(count_progress.to, MAX_COUNTED + 1 - count_progress.hits)
    if hits.is_whole and not count_progress.to:
        return _from_all_hits(session, query, hits.rows, request)
    if request.wants(RequestedPart.EARLIER):
        earlier = _earlier_hits(search, session.last_seq, request.before, request.scan_positions[0])
    if request.wants(RequestedPart.LATER):
        later = _later_hits(search, request.behind, request.scan_positions[1])
    count = count_progress.hits + len(hits.rows)
    return SessionHits(
        query=query,
        count=min(max(count, len({*earlier.seqs, *later.seqs})), MAX_COUNTED),
        capped=count > MAX_COUNTED,
        number=0,
        earlier=earlier,
        later=later,
        among=_hits_between(search, request.stretch),
        count_progress=CountProgress(hits.to, count),
        is_all=hits.is_whole or count > MAX_COUNTED,
        last_seq=session.last_seq,
    )


def _from_all_hits(session: AgentSession, query: Query, seqs: list[int], request: HitsRequest) -> SessionHits:
    """Return the result if `seqs` are all hits."""
    earlier, later = _neighbor_hits(seqs, request.before, request.behind)
    first, last = request.stretch
    return SessionHits(
        query=query,
        count=len(seqs),
        capped=False,
        number=seqs.index(request.selected) + 1 if request.selected in seqs else 0,
        earlier=earlier,
        later=later,
        among=seqs[bisect_left(seqs, first) : bisect_right(seqs, last)],
        count_progress=None,
        is_all=True,
        last_seq=session.last_seq,
    )


def _hits_between(search: SessionSearch, stretch: tuple[int, int]) -> list[int]:
    first, last = stretch
    return list(search.seqs_between(first, last)) if 0 <= last - first <= MAX_LISTED_RANGE else []


def _neighbor_hits(seqs: list[int], position: int, beyond: int) -> tuple[HitsBeside, HitsBeside]:
    """Return the hits before `position` and after `beyond` out of all hits, wrapping around."""
    before, behind = bisect_left(seqs, position), bisect_right(seqs, beyond)
    earlier = [
        *reversed(seqs[max(0, before - MAX_NEIGHBORS) : before]),
        *reversed(seqs[before:][-MAX_NEIGHBORS:]),
    ]
    later = [*seqs[behind : behind + MAX_NEIGHBORS], *seqs[: min(behind, MAX_NEIGHBORS)]]
    return HitsBeside(earlier[:MAX_NEIGHBORS]), HitsBeside(later[:MAX_NEIGHBORS])


def _earlier_hits(search: SessionSearch, last: int, position: int, reached: int) -> HitsBeside:
    """Return the hits before a position. `reached` is the last scanned seq; above it if the scan wrapped around."""
    if reached <= position:
        behind = search.seqs_before(reached or position, MAX_NEIGHBORS)
        if behind.rows or not behind.is_whole:
            return HitsBeside(behind.rows, behind.to)
        reached = last + 1
    round_the_end = search.seqs_before(reached, MAX_NEIGHBORS)
    return HitsBeside(round_the_end.rows, round_the_end.to if round_the_end.to > position else 0)


def _later_hits(search: SessionSearch, position: int, reached: int) -> HitsBeside:
    """Return the hits after a position. `reached` is the last scanned seq; below it if the scan wrapped around."""
    if not 0 < reached < position:
        ahead = search.seqs_after(max(position, reached), MAX_NEIGHBORS)
        if ahead.rows or not ahead.is_whole:
            return HitsBeside(ahead.rows, ahead.to)
        reached = 0
    round_the_end = search.seqs_after(reached, MAX_NEIGHBORS)
    return HitsBeside(round_the_end.rows, round_the_end.to if round_the_end.to < position else 0)
