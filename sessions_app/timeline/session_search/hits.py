"""The hits of a query in a session: how many there are, and those on either side of a place."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from sessions_app import scopes
from sessions_app.models import AgentSession
from sessions_app.search import execution
from sessions_app.search.query import Query
from sessions_app.timeline.session_search.scan import LONG_SCAN_S, ScanResult, SessionSearch

MAX_COUNTED = 10_000
"""Hits that are counted."""

MAX_NEIGHBORS = 20
"""Hits on either side of the open event that are named, so that one can go through them fast."""

MAX_LISTED_RANGE = 2_000
"""Events between which hits are listed for a page, where they have not all been found."""


class RequestedPart(StrEnum):
    """What alone is asked for, where the rest is known."""

    COUNT = "count"
    EARLIER = "earlier"
    LATER = "later"


class CountProgress(NamedTuple):
    """How far hits were counted by an answer before: up to which seq, and how many."""

    to: int = 0
    hits: int = 0


NOT_COUNTED = CountProgress()


@dataclass(frozen=True, slots=True)
class HitsRequest:
    """From where a search is looked at, and what answers before have looked at already.

    Attributes:
        selected: seq of the open event, 0 when there is none.
        at: seq of the event from which on the next hit is looked for when none is open.
        stretch: the seqs between which the hits are listed.
        counted: how far an answer before counted.
        looked: how far answers before looked for the hits before and after the open event (`Side.place`).
        part: what alone is looked for; None: all.
    """

    selected: int = 0
    at: int = 0
    stretch: tuple[int, int] = (0, 0)
    counted: CountProgress = NOT_COUNTED
    looked: tuple[int, int] = (0, 0)
    part: RequestedPart | None = None

    def wants(self, part: RequestedPart) -> bool:
        """Tell whether a part is to be looked for."""
        return self.part in (None, part)

    @property
    def before(self) -> int:
        """The place before which the earlier hits lie."""
        return self.selected or self.at

    @property
    def behind(self) -> int:
        """The place behind which the later hits lie: where no event is open, the one at the place may be a hit."""
        return self.selected or max(0, self.at - 1)


EVERYTHING = HitsRequest()


@dataclass(frozen=True, slots=True)
class HitsBeside:
    """Hits on one side of a place, the nearest first.

    Where the session ends they begin again at its other end. `place` says how far was looked when there is none yet;
    0: everywhere.
    """

    seqs: list[int] = field(default_factory=list)
    place: int = 0

    @property
    def nearest(self) -> int:
        """seq of the first of them, 0 when there is none."""
        return self.seqs[0] if self.seqs else 0


@dataclass(frozen=True, slots=True)
class SessionHits:
    """What a query finds in a session.

    Attributes:
        query: what was asked for.
        count: how many events match, as far as was looked; `capped`: there are more than were counted.
        number: which of the hits is open, counted from 1; 0: none is, or it was not counted.
        earlier, later: the hits before and after the open event.
        among: seqs of the hits in a stretch of the session.
        counted: how far they are counted, for the next answer to go on from; None: all at once.
        is_all: all of them are counted, or as many as ever are.
        last_seq: the session's last event.
    """

    query: Query
    count: int
    capped: bool
    number: int
    earlier: HitsBeside
    later: HitsBeside
    among: list[int]
    counted: CountProgress | None
    is_all: bool
    last_seq: int

    @property
    def previous(self) -> int:
        """seq of the hit before the open event, 0 when none is known."""
        return self.earlier.nearest

    @property
    def next(self) -> int:
        """seq of the hit after the open event, 0 when none is known."""
        return self.later.nearest

    @property
    def words(self) -> list[str]:
        """The words and phrases to mark in what is read."""
        named = [
            term.value for term in self.query.fields if term.name in ("tool", "error") and not term.negated
        ]
        return [word.text for word in self.query.words if not word.negated] + named

    @property
    def words_json(self) -> str:
        """The words as JSON, for scripts."""
        return scopes.dumps(self.words)

    @property
    def left_out(self) -> list[str]:
        """The terms that say nothing about events, as they are written."""
        return [str(term) for term in execution.session_terms(self.query)]


def find_hits(session: AgentSession, query: Query, asked: HitsRequest = EVERYTHING) -> SessionHits:
    """Return what a query finds in a session, as far as it is asked for."""
    search = SessionSearch(session, query, LONG_SCAN_S if asked.part else None)
    counted, earlier, later = asked.counted, HitsBeside(), HitsBeside()
    hits: ScanResult[int] = ScanResult([], counted.to, is_whole=False)
    if asked.wants(RequestedPart.COUNT):
        hits = search.seqs_after(counted.to, MAX_COUNTED + 1 - counted.hits)
    if hits.is_whole and not counted.to:
        return _from_all_hits(session, query, hits.rows, asked)
    if asked.wants(RequestedPart.EARLIER):
        earlier = _earlier(search, session.last_seq, asked.before, asked.looked[0])
    if asked.wants(RequestedPart.LATER):
        later = _later(search, asked.behind, asked.looked[1])
    count = counted.hits + len(hits.rows)
    return SessionHits(
        query=query,
        count=min(max(count, len({*earlier.seqs, *later.seqs})), MAX_COUNTED),
        capped=count > MAX_COUNTED,
        number=0,
        earlier=earlier,
        later=later,
        among=_hits_between(search, asked.stretch),
        counted=CountProgress(hits.to, count),
        is_all=hits.is_whole or count > MAX_COUNTED,
        last_seq=session.last_seq,
    )


def _from_all_hits(session: AgentSession, query: Query, seqs: list[int], asked: HitsRequest) -> SessionHits:
    """Return what a query finds, where `seqs` are all hits there are."""
    earlier, later = _neighbors(seqs, asked.before, asked.behind)
    first, last = asked.stretch
    return SessionHits(
        query=query,
        count=len(seqs),
        capped=False,
        number=seqs.index(asked.selected) + 1 if asked.selected in seqs else 0,
        earlier=earlier,
        later=later,
        among=seqs[bisect_left(seqs, first) : bisect_right(seqs, last)],
        counted=None,
        is_all=True,
        last_seq=session.last_seq,
    )


def _hits_between(search: SessionSearch, stretch: tuple[int, int]) -> list[int]:
    first, last = stretch
    return list(search.seqs_between(first, last)) if 0 <= last - first <= MAX_LISTED_RANGE else []


def _neighbors(seqs: list[int], place: int, beyond: int) -> tuple[HitsBeside, HitsBeside]:
    """Return the hits before a place and those behind another, of all hits there are, round the ends."""
    before, behind = bisect_left(seqs, place), bisect_right(seqs, beyond)
    earlier = [
        *reversed(seqs[max(0, before - MAX_NEIGHBORS) : before]),
        *reversed(seqs[before:][-MAX_NEIGHBORS:]),
    ]
    later = [*seqs[behind : behind + MAX_NEIGHBORS], *seqs[: min(behind, MAX_NEIGHBORS)]]
    return HitsBeside(earlier[:MAX_NEIGHBORS]), HitsBeside(later[:MAX_NEIGHBORS])


def _earlier(search: SessionSearch, last: int, place: int, looked: int) -> HitsBeside:
    """Return the hits before a place; `looked` is how far was looked already, behind the place when round the end."""
    if looked <= place:
        behind = search.seqs_before(looked or place, MAX_NEIGHBORS)
        if behind.rows or not behind.is_whole:
            return HitsBeside(behind.rows, behind.to)
        looked = last + 1
    round_the_end = search.seqs_before(looked, MAX_NEIGHBORS)
    return HitsBeside(round_the_end.rows, round_the_end.to if round_the_end.to > place else 0)


def _later(search: SessionSearch, place: int, looked: int) -> HitsBeside:
    """Return the hits behind a place; `looked` is how far was looked already, before the place when round the end."""
    if not 0 < looked < place:
        ahead = search.seqs_after(max(place, looked), MAX_NEIGHBORS)
        if ahead.rows or not ahead.is_whole:
            return HitsBeside(ahead.rows, ahead.to)
        looked = 0
    round_the_end = search.seqs_after(looked, MAX_NEIGHBORS)
    return HitsBeside(round_the_end.rows, round_the_end.to if round_the_end.to < place else 0)
