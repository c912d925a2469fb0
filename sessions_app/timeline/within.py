"""Search within one session: which of its events a query finds, how many, and those around the one that is open.

A session may have a million events. Nothing here reads more than a window of them; what is counted is counted up to a
bound, and an index answers for words (see `finding`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.db.models import QuerySet

from sessions_app import finding, found_by, state
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
    """A kind, author or tool that the session has; `query` asks for it besides, or no longer when it `is_on`."""

    field: str
    value: str
    label: str
    query: str
    is_on: bool


def hits(session: AgentSession, query: Query) -> QuerySet[Event]:
    """Return the events that a query finds, oldest first, without their bodies."""
    return finding.in_session(session, query).defer("data", "private")


def found(
    session: AgentSession, query: Query, *, selected: int = 0, at: int = 0, stretch: tuple[int, int] = (0, 0)
) -> Found:
    """Return what a query finds in a session. Six queries.

    Args:
        session: where it searches.
        query: what for.
        selected: seq of the open event, 0 when there is none.
        at: seq of the event from which on the next hit is looked for when none is open.
        stretch: the seqs between which the hits are listed.
    """
    rows = finding.in_session(session, query).values_list("seq", flat=True)
    count = rows[: MOST_COUNTED + 1].count()
    first, last = stretch
    return Found(
        query=query,
        count=min(count, MOST_COUNTED),
        capped=count > MOST_COUNTED,
        number=_number(rows, selected) if count and selected else 0,
        previous=_nearest(rows.reverse(), rows.reverse().filter(seq__lt=selected or at)) if count else 0,
        next=_nearest(rows, rows.filter(seq__gt=selected or at - 1)) if count else 0,
        among=list(rows.filter(seq__gte=first, seq__lte=last)[:MOST_COUNTED]) if count and last else [],
    )


def _number(rows: QuerySet[Event, int], at: int) -> int:
    """Return which of the hits an event is, if it is one that is counted."""
    if not rows.filter(seq=at).exists():
        return 0
    number = rows.filter(seq__lte=at)[: MOST_COUNTED + 1].count()
    return number if number <= MOST_COUNTED else 0


def _nearest(everything: QuerySet[Event, int], beyond: QuerySet[Event, int]) -> int:
    seq = beyond.first()
    return (everything.first() if seq is None else seq) or 0


def newest(session: AgentSession, rows: QuerySet[Event]) -> Window:
    """Return the last hits."""
    return before(session, rows, session.last_seq + 1)


def before(session: AgentSession, rows: QuerySet[Event], seq: int) -> Window:
    """Return the hits just before `seq`."""
    events = list(rows.filter(seq__lt=seq).order_by("-seq")[: WINDOW + 1])
    shown = events[:WINDOW][::-1]
    start = shown[0].seq if len(events) > WINDOW else 1
    return HitWindow(shown, session.last_seq, (start, max(0, min(seq - 1, session.last_seq))))


def after(session: AgentSession, rows: QuerySet[Event], seq: int) -> Window:
    """Return the hits just after `seq`."""
    events = list(rows.filter(seq__gt=seq).order_by("seq")[: WINDOW + 1])
    shown = events[:WINDOW]
    end = shown[-1].seq if len(events) > WINDOW else session.last_seq
    return HitWindow(shown, session.last_seq, (seq + 1, end))


def around(session: AgentSession, rows: QuerySet[Event], seq: int) -> Window:
    """Return the hits before and after `seq`, and itself when it is one."""
    earlier = list(rows.filter(seq__lt=seq).order_by("-seq")[: WINDOW // 2 + 1])
    later = list(rows.filter(seq__gte=seq).order_by("seq")[: WINDOW // 2 + 1])
    start = 1 if len(earlier) <= WINDOW // 2 else earlier[WINDOW // 2 - 1].seq
    end = session.last_seq if len(later) <= WINDOW // 2 else later[WINDOW // 2 - 1].seq
    shown = [*earlier[: WINDOW // 2][::-1], *later[: WINDOW // 2]]
    return HitWindow(shown, session.last_seq, (start, end))


def chips(session: AgentSession, text: str) -> list[tuple[str, list[Chip]]]:
    """Return (field, chips) for the kinds, authors and tools that a session has. Two queries.

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
        for field in ("kind", "author", "tool")
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
    """Return the kinds, authors and tools of a session, from the index and from what it does not have yet."""
    wanted = ("kind", "author", "tool")
    traits = SessionTrait.objects.filter(session=session, name__in=wanted).order_by("name", "value")
    pairs = set(traits.values_list("name", "value")[: 3 * MOST_NAMES])
    tail = Event.objects.filter(session=session, seq__gt=session.indexed_seq).order_by("-seq")
    for kind, author, summary in tail.values_list("kind", "author", "summary")[:NEWEST]:
        pairs.update(found_by.traits_of(kind, author, summary))
    found = {name: sorted(value for kind, value in pairs if kind == name)[:MOST_NAMES] for name in wanted}
    return {**found, "kind": [kind for kind in Kind.values if kind in found["kind"]]}
