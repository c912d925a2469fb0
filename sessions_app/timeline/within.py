"""Search within one session: which of its events a query finds, how many, and those around the one that is open.

A session may have a million events. Nothing here reads more than a window of them; what is counted is counted up to a
bound, and an index answers for words (see `finding`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

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

STRETCH = 10_000
"""Events that are looked at first."""

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


@dataclass(frozen=True, slots=True)
class Found:
    """What a query finds in a session.

    Attributes:
        query: what was asked for.
        count: how many events match; `capped`: there are more than were counted.
        number: which of the hits is open, counted from 1; 0: none is, or it was not counted.
        previous, next: seqs of the hits before and after the open event, round the ends; 0: there is none.
        among: seqs of the hits in a stretch of the session.
    """

    query: Query
    count: int
    capped: bool
    number: int
    previous: int
    next: int
    among: list[int]

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


class Search:
    """A query within a session, answered stretch by stretch from where it is looked at: each is ten times the last.

    So where most events match few of them are looked at, and where few do the whole is looked at hardly more than once.
    """

    def __init__(self, session: AgentSession, query: Query) -> None:
        self._low, self._high = _reach(session, query)
        self._events = finding.InSession(session, query)

    def after(self, seq: int, most: int) -> list[Event]:
        """Return the first hits behind `seq`, as rows of a timeline."""
        return _taken((self._rows(*place) for place in self._upwards(seq)), most)

    def before(self, seq: int, most: int) -> list[Event]:
        """Return the last hits before `seq`, the latest first."""
        return _taken((self._rows(*place).reverse() for place in self._downwards(seq)), most)

    def seqs_after(self, seq: int, most: int) -> list[int]:
        """Return the seqs of the first hits behind `seq`."""
        return _taken((self.seqs_between(*place) for place in self._upwards(seq)), most)

    def seqs_before(self, seq: int, most: int) -> list[int]:
        """Return the seqs of the last hits before `seq`, the latest first."""
        return _taken((self.seqs_between(*place).reverse() for place in self._downwards(seq)), most)

    def seqs_between(self, first: int, last: int) -> QuerySet[Event, int]:
        """Return the seqs of the hits from a seq to another."""
        return self._rows(first, last).values_list("seq", flat=True)

    def _rows(self, first: int, last: int) -> QuerySet[Event]:
        return self._events.between(first, last).defer("data", "private")

    def _upwards(self, seq: int) -> Iterator[tuple[int, int]]:
        size, seq = STRETCH, max(seq, self._low - 1)
        while seq < self._high:
            end = min(seq + size, self._high)
            yield seq + 1, end
            seq, size = end, size * 10

    def _downwards(self, seq: int) -> Iterator[tuple[int, int]]:
        size, seq = STRETCH, min(seq, self._high + 1)
        while seq > self._low:
            start = max(self._low, seq - size)
            yield start, seq - 1
            seq, size = start, size * 10


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


def _taken(pieces: Iterable[QuerySet[Event, Row]], most: int) -> list[Row]:
    """Return what the first of the pieces that have something hold, at most so many."""
    found: list[Row] = []
    for piece in pieces:
        found += piece[: most - len(found)]
        if len(found) >= most:
            break
    return found


def found(
    session: AgentSession, query: Query, *, selected: int = 0, at: int = 0, stretch: tuple[int, int] = (0, 0)
) -> Found:
    """Return what a query finds in a session.

    Args:
        session: where it searches.
        query: what for.
        selected: seq of the open event, 0 when there is none.
        at: seq of the event from which on the next hit is looked for when none is open.
        stretch: the seqs between which the hits are listed.
    """
    search = Search(session, query)
    first, last = stretch
    seqs = search.seqs_after(0, MOST_COUNTED + 1)
    beyond = selected or max(0, at - 1)
    if len(seqs) > MOST_COUNTED:
        previous = search.seqs_before(selected or at, 1) or search.seqs_before(session.last_seq + 1, 1)
        following = search.seqs_after(beyond, 1) or seqs
        among = list(search.seqs_between(first, last)) if last else []
    else:
        previous = seqs[: bisect_left(seqs, selected or at)][-1:] or seqs[-1:]
        following = seqs[bisect_right(seqs, beyond) :] or seqs
        among = seqs[bisect_left(seqs, first) : bisect_right(seqs, last)]
    counted = seqs[:MOST_COUNTED]
    return Found(
        query=query,
        count=len(counted),
        capped=len(seqs) > MOST_COUNTED,
        number=counted.index(selected) + 1 if selected in counted else 0,
        previous=previous[0] if previous else 0,
        next=following[0] if following else 0,
        among=among,
    )


def newest(session: AgentSession, query: Query) -> Window:
    """Return the last hits."""
    return before(session, query, session.last_seq + 1)


def before(session: AgentSession, query: Query, seq: int) -> Window:
    """Return the hits just before `seq`."""
    events = Search(session, query).before(seq, WINDOW + 1)
    shown = events[:WINDOW][::-1]
    start = shown[0].seq if len(events) > WINDOW else 1
    return HitWindow(shown, session.last_seq, (start, max(0, min(seq - 1, session.last_seq))))


def after(session: AgentSession, query: Query, seq: int) -> Window:
    """Return the hits just after `seq`."""
    events = Search(session, query).after(seq, WINDOW + 1)
    shown = events[:WINDOW]
    end = shown[-1].seq if len(events) > WINDOW else session.last_seq
    return HitWindow(shown, session.last_seq, (seq + 1, end))


def around(session: AgentSession, query: Query, seq: int) -> Window:
    """Return the hits before and after `seq`, and itself when it is one."""
    search, half = Search(session, query), WINDOW // 2
    earlier, later = search.before(seq, half + 1), search.after(seq - 1, half + 1)
    start = earlier[half - 1].seq if len(earlier) > half else 1
    end = later[half - 1].seq if len(later) > half else session.last_seq
    return HitWindow([*earlier[:half][::-1], *later[:half]], session.last_seq, (start, end))


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
