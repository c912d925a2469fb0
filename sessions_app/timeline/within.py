"""Search within one session: which of its events a query finds, how many, and those around the one that is open.

A session may have a million events, and not every term has an index. So nothing here reads more than a window of them,
what is counted is counted up to a bound, and an answer that takes long ends where it is: it says how far it looked, and
the next one goes on from there.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

from django.db.models import QuerySet

from sessions_app import event_text, finding, state
from sessions_app.models import AgentSession, AppState, Event, Kind, Scope, SessionTrait, UserState
from sessions_app.query import Field, Query, QueryProblem, Vocabulary, parse
from sessions_app.timeline.window import WINDOW, Window

MOST_COUNTED = 10_000
"""Hits that are counted."""

MOST_NAMES = 60
"""Authors and tools of a session that are offered."""

NEWEST = 200
"""Events whose kinds, authors and tools are read from the events themselves, because no index has them yet."""

MOST_KEYS = 300

KNOWN = ("author", "tool", "branch")
"""Terms whose every value in a session the index knows."""

STRETCH = 4_000
"""Events that are looked at first; then four times as many each time, as long as that is quick."""

LOOK_S, LONG_LOOK_S = 0.04, 0.12
"""Seconds after which a look ends, at the end of its stretch: one of several, and one that is all there is to do."""

NEAR = 20
"""Hits on either side of the open event that are named, so that one can go through them fast."""

MOST_AMONG = 2_000
"""Events between which hits are listed for a page, where they have not all been found."""

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class HitWindow(Window):
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


class Part(StrEnum):
    """What alone is asked for, where the rest is known."""

    COUNT = "count"
    EARLIER = "earlier"
    LATER = "later"


class Counted(NamedTuple):
    """How far hits were counted by an answer before: up to which seq, and how many."""

    to: int = 0
    hits: int = 0


NOT_YET = Counted()


@dataclass(frozen=True, slots=True)
class Side:
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
class Found:
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
    earlier: Side
    later: Side
    among: list[int]
    counted: Counted | None
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
        return state.dumps(self.words)

    @property
    def left_out(self) -> list[str]:
        """The terms that say nothing about events, as they are written."""
        return [str(term) for term in finding.not_of_events(self.query)]


@dataclass(frozen=True, slots=True)
class Chip:
    """A kind, author, tool or branch of the session; `query` asks for it besides, or no longer when it `is_on`."""

    field: str
    value: str
    label: str
    query: str
    is_on: bool


@dataclass(frozen=True, slots=True)
class Looked(Generic[Row]):
    """What a look found: all down or up to the seq `to`, as far as so many were wanted; `is_whole`: nothing is left."""

    rows: list[Row]
    to: int
    is_whole: bool


class Search:
    """A query within a session, answered stretch by stretch from where it is looked at, each look for a short time.

    Where most events match few of them are looked at, and where an index answers the whole is soon looked at.
    """

    def __init__(self, session: AgentSession, query: Query, seconds: float | None = None) -> None:
        """Take what is searched for, and how long a look may take; default: `LOOK_S`."""
        self._seconds = LOOK_S if seconds is None else seconds
        self._last = session.last_seq
        self._low, self._high = _reach(session, query)
        self._events = finding.InSession(session, query)

    def after(self, seq: int, most: int) -> Looked[Event]:
        """Return the first hits behind `seq`, as rows of a timeline."""
        return self._upwards(seq, most, self._rows)

    def before(self, seq: int, most: int) -> Looked[Event]:
        """Return the last hits before `seq`, the latest first."""
        return self._downwards(seq, most, lambda first, last: self._rows(first, last).reverse())

    def seqs_after(self, seq: int, most: int) -> Looked[int]:
        """Return the seqs of the first hits behind `seq`."""
        return self._upwards(seq, most, self.seqs_between)

    def seqs_before(self, seq: int, most: int) -> Looked[int]:
        """Return the seqs of the last hits before `seq`, the latest first."""
        return self._downwards(seq, most, lambda first, last: self.seqs_between(first, last).reverse())

    def seqs_between(self, first: int, last: int) -> QuerySet[Event, int]:
        """Return the seqs of the hits from a seq to another."""
        return self._rows(first, last).values_list("seq", flat=True)

    def _rows(self, first: int, last: int) -> QuerySet[Event]:
        return self._events.between(first, last).defer("data", "private")

    def _upwards(self, seq: int, most: int, ask: Callable[[int, int], QuerySet[Event, Row]]) -> Looked[Row]:
        place, pace = max(seq, self._low - 1), _Pace(self._seconds)
        found: list[Row] = []
        while place < self._high and len(found) < most and pace.goes_on:
            end = min(place + pace.size, self._high)
            found += ask(place + 1, end)[: most - len(found)]
            place = end
            pace.step()
        is_whole = place >= self._high and len(found) < most
        return Looked(found, self._last if is_whole else place, is_whole)

    def _downwards(self, seq: int, most: int, ask: Callable[[int, int], QuerySet[Event, Row]]) -> Looked[Row]:
        place, pace = min(seq, self._high + 1), _Pace(self._seconds)
        found: list[Row] = []
        while place > self._low and len(found) < most and pace.goes_on:
            start = max(self._low, place - pace.size)
            found += ask(start, place - 1)[: most - len(found)]
            place = start
            pace.step()
        is_whole = place <= self._low and len(found) < most
        return Looked(found, 1 if is_whole else place, is_whole)


class _Pace:
    """How large the next stretch of a look is, and whether there is time for it."""

    def __init__(self, seconds: float) -> None:
        self.size = STRETCH
        self._seconds = seconds
        self.goes_on = True
        self._began = self._stepped = _now()

    def step(self) -> None:
        """Take note that a stretch was looked at."""
        now = _now()
        self.goes_on = now - self._began < self._seconds
        if (now - self._stepped) * 8 < self._seconds:
            self.size *= 4
        self._stepped = now


def _now() -> float:
    return time.monotonic()


def _reach(session: AgentSession, query: Query) -> tuple[int, int]:
    """Return the seqs between which hits can stand, by what the index knows of authors, tools and branches.

    It knows the newest event that has each. What it does not know can only be in what it has not read yet.
    """
    low, high = 1, session.last_seq
    named = {
        (term.name, event_text.cut(term.value))
        for term in query.fields
        if term.name in KNOWN and not term.negated
    }
    if not named:
        return low, high
    traits = SessionTrait.objects.filter(session=session, name__in=KNOWN)
    known = {
        (name, value): seq
        for name, value, seq in traits.filter(value__in=[value for _, value in named]).values_list(
            "name", "value", "seq"
        )
    }
    unread = session.indexed_seq < session.last_seq
    for pair in named:
        if pair not in known:
            low = max(low, session.indexed_seq + 1)
        elif not unread:
            high = min(high, known[pair])
    return low, high


def found(
    session: AgentSession,
    query: Query,
    *,
    selected: int = 0,
    at: int = 0,
    stretch: tuple[int, int] = (0, 0),
    counted: Counted = NOT_YET,
    looked: tuple[int, int] = (0, 0),
    part: Part | None = None,
) -> Found:
    """Return what a query finds in a session.

    Args:
        session: where it searches.
        query: what for.
        selected: seq of the open event, 0 when there is none.
        at: seq of the event from which on the next hit is looked for when none is open.
        stretch: the seqs between which the hits are listed.
        counted: how far an answer before counted.
        looked: how far answers before looked for the hits before and after the open event (`Side.place`).
        part: what alone is looked for; default: all.
    """
    search = Search(session, query, LONG_LOOK_S if part else LOOK_S)
    seqs: Looked[int] = Looked([], counted.to, is_whole=False)
    if part in (None, Part.COUNT):
        seqs = search.seqs_after(counted.to, MOST_COUNTED + 1 - counted.hits)
    count = counted.hits + len(seqs.rows)
    place, beyond = selected or at, selected or max(0, at - 1)
    is_at_once = seqs.is_whole and not counted.to
    earlier = later = Side()
    if is_at_once:
        earlier, later = _beside(seqs.rows, place, beyond)
        among = seqs.rows[bisect_left(seqs.rows, stretch[0]) : bisect_right(seqs.rows, stretch[1])]
    else:
        if part in (None, Part.EARLIER):
            earlier = _earlier(search, session.last_seq, place, looked[0])
        if part in (None, Part.LATER):
            later = _later(search, beyond, looked[1])
        among = list(search.seqs_between(*stretch)) if 0 <= stretch[1] - stretch[0] <= MOST_AMONG else []
    is_capped = count > MOST_COUNTED
    return Found(
        query=query,
        count=min(max(count, len({*earlier.seqs, *later.seqs})), MOST_COUNTED),
        capped=is_capped,
        number=seqs.rows.index(selected) + 1 if is_at_once and selected in seqs.rows else 0,
        earlier=earlier,
        later=later,
        among=among,
        counted=None if is_at_once else Counted(seqs.to, count),
        is_all=seqs.is_whole or is_capped,
        last_seq=session.last_seq,
    )


def _beside(seqs: list[int], place: int, beyond: int) -> tuple[Side, Side]:
    """Return the hits before a place and those behind another, of all hits there are, round the ends."""
    before, behind = bisect_left(seqs, place), bisect_right(seqs, beyond)
    earlier = [*reversed(seqs[max(0, before - NEAR) : before]), *reversed(seqs[before:][-NEAR:])]
    later = [*seqs[behind : behind + NEAR], *seqs[: min(behind, NEAR)]]
    return Side(earlier[:NEAR]), Side(later[:NEAR])


def _earlier(search: Search, last: int, place: int, looked: int) -> Side:
    """Return the hits before a place; `looked` is how far was looked already, behind the place when round the end."""
    if looked <= place:
        behind = search.seqs_before(looked or place, NEAR)
        if behind.rows or not behind.is_whole:
            return Side(behind.rows, behind.to)
        looked = last + 1
    round_the_end = search.seqs_before(looked, NEAR)
    return Side(round_the_end.rows, round_the_end.to if round_the_end.to > place else 0)


def _later(search: Search, place: int, looked: int) -> Side:
    """Return the hits behind a place; `looked` is how far was looked already, before the place when round the end."""
    if not 0 < looked < place:
        ahead = search.seqs_after(max(place, looked), NEAR)
        if ahead.rows or not ahead.is_whole:
            return Side(ahead.rows, ahead.to)
        looked = 0
    round_the_end = search.seqs_after(looked, NEAR)
    return Side(round_the_end.rows, round_the_end.to if round_the_end.to < place else 0)


def newest(session: AgentSession, query: Query) -> Window:
    """Return the last hits."""
    return before(session, query, session.last_seq + 1)


def before(session: AgentSession, query: Query, seq: int) -> Window:
    """Return the hits just before `seq`."""
    looked = Search(session, query).before(seq, WINDOW + 1)
    shown = looked.rows[:WINDOW][::-1]
    start = shown[0].seq if len(looked.rows) > WINDOW else looked.to
    return HitWindow(shown, session.last_seq, (start, max(0, min(seq - 1, session.last_seq))))


def after(session: AgentSession, query: Query, seq: int) -> Window:
    """Return the hits just after `seq`."""
    looked = Search(session, query).after(seq, WINDOW + 1)
    shown = looked.rows[:WINDOW]
    end = shown[-1].seq if len(looked.rows) > WINDOW else looked.to
    return HitWindow(shown, session.last_seq, (seq + 1, end))


def around(session: AgentSession, query: Query, seq: int) -> Window:
    """Return the hits before and after `seq`, and itself when it is one."""
    search, half = Search(session, query), WINDOW // 2
    earlier, later = search.before(seq, half + 1), search.after(seq - 1, half + 1)
    start = earlier.rows[half - 1].seq if len(earlier.rows) > half else earlier.to
    end = later.rows[half - 1].seq if len(later.rows) > half else later.to
    shown = [*earlier.rows[:half][::-1], *later.rows[:half]]
    return HitWindow(shown, session.last_seq, (start, end))


def marked(session: AgentSession, query: Query, seqs: Collection[int]) -> set[int]:
    """Return which of some events, which stand close together, a query finds."""
    return set(Search(session, query).seqs_between(min(seqs), max(seqs)))


def chips(session: AgentSession, text: str) -> list[tuple[str, list[Chip]]]:
    """Return (field, chips) for the kinds, authors, tools and branches that a session has. Two queries.

    Args:
        session: whose they are.
        text: the query that stands in the box; one that cannot be read is left as it is.
    """
    try:
        query = parse(text)
    except QueryProblem:
        query = Query()
    names = _names(session)
    labels = {str(kind): str(kind.label) for kind in Kind}
    return [
        (field, [_chip(query, field, value, labels) for value in names[field]])
        for field in ("kind", "author", "tool", "branch")
        if names[field]
    ]


def _chip(query: Query, field: str, value: str, labels: dict[str, str]) -> Chip:
    others = tuple(
        term
        for term in query.terms
        if not (isinstance(term, Field) and term.name == field and not term.negated)
    )
    wanted = Field(field, value)
    is_on = wanted in query.terms
    label = labels[value] if field == "kind" else value
    return Chip(field, value, label, str(replace(query, terms=others if is_on else (*others, wanted))), is_on)


def vocabulary(session: AgentSession) -> Vocabulary:
    """Return the names that a query within a session may mean. Five queries."""
    names = _names(session)
    own = [*session.state_rows.order_by("key").values_list("key", flat=True)[:MOST_KEYS]]
    owner = {"owner__realm": session.realm, "owner__app_name": session.app_name}
    users = UserState.objects.filter(**owner, owner__user_id=session.user_id).order_by("key")
    apps = AppState.objects.filter(**owner).order_by("key")
    own += [state.PREFIX[Scope.USER] + key for key in users.values_list("key", flat=True)[:MOST_KEYS]]
    own += [state.PREFIX[Scope.APP] + key for key in apps.values_list("key", flat=True)[:MOST_KEYS]]
    return Vocabulary(tools=names["tool"], authors=names["author"], keys=own)


def _names(session: AgentSession) -> dict[str, list[str]]:
    """Return the kinds, authors, tools and branches of a session, from the index and from what it does not have yet."""
    wanted = ("kind", "author", "tool", "branch")
    traits = SessionTrait.objects.filter(session=session, name__in=wanted).order_by("name", "value")
    pairs = set(traits.values_list("name", "value")[: len(wanted) * MOST_NAMES])
    tail = Event.objects.filter(session=session, seq__gt=session.indexed_seq).order_by("-seq")
    for told in tail.values_list("kind", "author", "branch", "summary")[:NEWEST]:
        pairs.update(event_text.traits_of(*told))
    found = {name: sorted(value for kind, value in pairs if kind == name)[:MOST_NAMES] for name in wanted}
    return {**found, "kind": [kind for kind in Kind.values if kind in found["kind"]]}
