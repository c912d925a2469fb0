"""Queries of the search box, answered by the store: sessions, the hit that each is found by, events of one session.

Lists show the newest sessions first and need one page of them. A term that an index knows few sessions of is answered
by their keys; any other one is a condition that the list tests on its way from the newest session on. What was written
since a session was last indexed (see `indexing`) is looked at itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, Exists, F, Func, Max, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.lookups import GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual
from django.db.models.sql.compiler import SQLCompiler

from sessions_app import event_index, expiry, found_by, realms, search, state
from sessions_app.comparing import compared, is_told_by_marks, marked
from sessions_app.event_index import Holds
from sessions_app.fragments import Fragment, fragments
from sessions_app.models import (
    AgentSession,
    AppScope,
    AppState,
    Event,
    Kind,
    Run,
    Scope,
    SessionState,
    SessionTag,
    SessionTrait,
    StateChange,
    StateValue,
    UserScope,
    UserState,
)
from sessions_app.query import Field, Query, StateTerm, Term, When, Word, moment, span

FEW = 10_000
"""Sessions by whose keys a term is answered; of more, a list finds a page soon enough by itself."""

FEW_TO_CHECK = 1_000
"""The same where each key is looked up again."""

MANY = 200_000
"""Sessions by whose keys a term is answered that asks for the others, which may be far between."""

SAMPLE = 250
"""Newest sessions that tell whether a condition is common."""

ENTRIES = 3
"""Entries of an index, for each of these, that are read to learn which sessions they are."""

TAIL_SESSIONS = 200
TAIL_EVENTS = 500
"""Most that is looked at because no index has it yet. A store that is indexed for the first time has more."""

SUMMARISED = 200_000
"""Characters of an event from which on its hit is shown out of its summary."""

TOOL_KINDS = (Kind.TOOL_CALL, Kind.TOOL_RESULT, Kind.ERROR)


@dataclass(frozen=True, slots=True)
class Hit:
    """The event that a session is found by: the newest that matches, and what of it matches."""

    seq: int
    kind: str
    author: str
    fragments: list[Fragment]


def narrowed(rows: QuerySet[AgentSession], wanted: Query) -> QuerySet[AgentSession]:
    """Return those of the sessions that a query asks for. It asks the indexes at once, the rest when it is read."""
    seen = _Tail()
    keys: set[int] | None = None
    conditions: list[tuple[Term, Q]] = []
    for term in wanted.terms:
        answer = _answer(term, seen)
        if isinstance(answer, Q):
            conditions.append((term, answer))
        else:
            rows, keys = _with_keys(rows, keys, term, answer)
    is_scattered = keys is not None and len(keys) > FEW_TO_CHECK
    for term, condition in conditions:
        answer = (
            _with_word(term, seen, is_scattered=True)
            if is_scattered and isinstance(term, Word)
            else condition
        )
        if isinstance(answer, Q):
            rows = rows.filter(~answer if term.negated else answer)
        else:
            rows, keys = _with_keys(rows, keys, term, answer)
    return rows if keys is None else rows.filter(_among(keys))


def _with_keys(
    rows: QuerySet[AgentSession], keys: set[int] | None, term: Term, answer: set[int]
) -> tuple[QuerySet[AgentSession], set[int] | None]:
    """Return what is left of the sessions, and of the keys that they must have, by a term that is answered by keys."""
    if term.negated:
        return (rows.exclude(_among(answer)) if answer else rows), keys
    return rows, answer if keys is None else keys & answer


def in_session(session: AgentSession, wanted: Query) -> QuerySet[Event]:
    """Return the events of a session that a query's terms about events ask for, oldest first. Others are left out."""
    return InSession(session, wanted).between(1, session.last_seq)


class InSession:
    """A query within a session. A stretch of it is cheaper than the whole where a word is in most of its events."""

    def __init__(self, session: AgentSession, wanted: Query) -> None:
        self.session = session
        self.wanted = wanted
        self._seen = _Tail(session)

    def between(self, first: int, last: int) -> QuerySet[Event]:
        """Return the events from a seq to another that match, oldest first."""
        rows = Event.objects.filter(session=self.session, seq__gte=first, seq__lte=last)
        for term in self.wanted.terms:
            condition = _of_event(term, self.session, self._seen, first, last)
            if condition is not None:
                rows = rows.exclude(condition) if term.negated else rows.filter(condition)
        return rows.order_by("seq")


def not_of_events(wanted: Query) -> list[Term]:
    """Return the terms of a query that say nothing about events, which `in_session` leaves out."""
    return [term for term in wanted.terms if isinstance(term, Field) and not _is_of_events(term)]


def hits(wanted: Query, sessions: Sequence[AgentSession]) -> dict[int, Hit]:
    """Return by which event each of the sessions is found, as far as a term is about events. At most six queries."""
    places = _hit_places(wanted, [session.pk for session in sessions])
    if not places:
        return {}
    pairs = reduce(operator.or_, (Q(session=pk, seq=seq) for pk, seq in places.items()))
    events = Event.objects.filter(pairs).defer("private")
    words = [word.text for word in wanted.words if not word.negated]
    words += [term.value for term in wanted.fields if term.name in _TRAITS and not term.negated]
    return {
        event.session_id: Hit(event.seq, event.kind, event.author, fragments(_shown(event), words))
        for event in events
    }


# What is not indexed yet


@dataclass
class _Tail:
    """What was written since sessions were indexed: of all of them, or of one."""

    of: AgentSession | None = None
    _texts: dict[tuple[int, int], list[str]] = field(default_factory=dict)

    @cached_property
    def sessions(self) -> dict[int, int]:
        """Primary keys and cursors, newest sessions first."""
        rows = AgentSession.objects.filter(last_seq__gt=F("indexed_seq"))
        if self.of is not None:
            rows = rows.filter(pk=self.of.pk)
        return dict(rows.order_by("-pk").values_list("pk", "indexed_seq")[:TAIL_SESSIONS])

    @property
    def has_all(self) -> bool:
        """Tell whether there are no more sessions."""
        return len(self.sessions) < TAIL_SESSIONS

    @cached_property
    def events(self) -> list[Event]:
        """Their events behind the cursors, newest sessions first."""
        if not self.sessions:
            return []
        rows = Event.objects.filter(session__in=self.sessions, seq__gt=F("session__indexed_seq"))
        columns = ("session_id", "seq", "kind", "author", "branch", "summary", "data")
        return list(rows.only(*columns).order_by("-session", "-seq")[:TAIL_EVENTS])

    def with_words(self, wanted: search.Term) -> list[Event]:
        """Return the events that hold a term."""
        return [event for event in self.events if self.holds(event, wanted)]

    def holds(self, event: Event, wanted: search.Term) -> bool:
        """Tell whether one of the events holds a term."""
        return search.holds(self._tokens(event), wanted)

    def with_trait(self, matches: Callable[[found_by.Trait], bool]) -> list[Event]:
        """Return the events that give their session a trait."""
        return [event for event in self.events if any(map(matches, self._traits(event)))]

    def owners(self, term: StateTerm) -> set[int]:
        """Return the owners of state that had a value which the term asks for."""
        if not self.sessions:
            return set()
        rows = StateChange.objects.filter(
            session__in=self.sessions,
            seq__gt=F("session__indexed_seq"),
            scope=term.scope,
            key_id=state.key_id(term.key),
            removed=False,
        )
        return set(rows.filter(compared("value", term)).values_list("owner_id", flat=True)[:FEW])

    def _tokens(self, event: Event) -> list[str]:
        place = (event.session_id, event.seq)
        if place not in self._texts:
            self._texts[place] = search.tokens(found_by.text_of(event.data))
        return self._texts[place]

    def _traits(self, event: Event) -> list[found_by.Trait]:
        return found_by.traits_of(event.kind, event.author, event.branch, event.summary)


# Terms about sessions


def _answer(term: Term, seen: _Tail) -> Q | set[int]:
    """Return the sessions of a term, without its negation: their keys where they are few, or else a condition."""
    most = MANY if term.negated else FEW
    if isinstance(term, Word):
        return _with_word(term, seen)
    if isinstance(term, StateTerm):
        return _with_state(term, seen, most)
    if term.name in _TRAITS:
        return _with_trait(term.name, term.value, seen, most)
    if term.name == "key":
        return _with_state(_written(term.value), seen, most)
    if term.name == "tag":
        name = " ".join(term.value.casefold().split())
        return _keys_or_condition(SessionTag.objects.filter(name=name), most)
    if term.name == "is":
        return _ARE[term.value]()
    return _COLUMNS[term.name](term)


def _with_word(term: Word, seen: _Tail, *, is_scattered: bool = False) -> Q | set[int]:
    """Find a word or phrase in the events or the title, or an id that begins so.

    Testing a session for a word takes as long as twenty other tests: that is done only where a list soon finds a page.

    Args:
        is_scattered: other terms ask for sessions that may be far between, and too many to test a word on each.
    """
    text = term.text
    named = Q(session_id__startswith=text) | ~Q(title="") & Q(title__icontains=text)
    wanted = search.phrase(text)
    if wanted is None:
        return named
    holds = Q(Holds(F("pk"), wanted))
    found = event_index.sessions(wanted, ENTRIES * FEW)
    if not found.is_all and (is_scattered or not _is_common(~holds if term.negated else holds)):
        found = event_index.sessions(wanted, ENTRIES * MANY)
    pks = {event.session_id for event in seen.with_words(wanted)}
    if found.is_all:
        called = AgentSession.objects.filter(named)
        return found.pks | pks | set(called.values_list("pk", flat=True)[:FEW])
    return holds | Q(pk__in=pks) | named


def _is_common(condition: Q) -> bool:
    """Tell whether enough of the newest sessions are so that a list soon finds a page of them."""
    newest = AgentSession.objects.filter(realm="").order_by("-updated_at", "-pk").values("pk")[:SAMPLE]
    return AgentSession.objects.filter(condition, pk__in=newest).count() * 5 >= SAMPLE


_TRAITS = frozenset({"kind", "author", "tool", "error", "branch"})


def _trait(name: str, value: str) -> tuple[QuerySet[SessionTrait], Callable[[found_by.Trait], bool]]:
    """Return the rows of a trait, and what tells it in events that are not indexed. Of an error a part is enough."""
    rows = SessionTrait.objects.filter(name=name)
    if name == SessionTrait.Name.ERROR:
        part = value.casefold()
        return rows.filter(
            value__icontains=value
        ), lambda trait: trait[0] == name and part in trait[1].casefold()
    short = found_by.cut(value)
    return rows.filter(value=short), lambda trait: trait == (name, short)


def _with_trait(name: str, value: str, seen: _Tail, most: int) -> Q | set[int]:
    rows, matches = _trait(name, value)
    return _keys_or_condition(rows, most, {event.session_id for event in seen.with_trait(matches)})


def _keys_or_condition(rows: QuerySet[Any], most: int, tail: Iterable[int] = ()) -> Q | set[int]:
    """Return the sessions that rows point to, and those of the tail."""
    pks = list(rows.values_list("session", flat=True)[: most + 1])
    if len(pks) <= most:
        return {*pks, *tail}
    return Q(Exists(rows.filter(session=OuterRef("pk")))) | Q(pk__in=set(tail))


class Among(Func):
    """Whether a session, named by its primary key, is one of these: one parameter, however many they are."""

    output_field = BooleanField()
    conditional = True

    def __init__(self, session_pk: Any, pks: Iterable[int] = (), **extra: Any) -> None:
        """Take the column and the keys."""
        super().__init__(session_pk, **extra)
        self.pks = list(pks)

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Write it for SQLite. The plus keeps it from looking each of many sessions up, to sort them all."""
        pk, params = compiler.compile(self.source_expressions[0])
        plus = "+" if len(self.pks) > FEW_TO_CHECK else ""
        sql = f"({plus}{pk} IN (SELECT value FROM json_each(%s)))"  # noqa: S608 - a column
        return sql, (*params, str(self.pks))

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Write it for PostgreSQL."""
        pk, params = compiler.compile(self.source_expressions[0])
        return f"({pk} = ANY(%s::bigint[]))", (*params, self.pks)


def _among(pks: Iterable[int]) -> Q:
    return Q(Among(F("pk"), pks))


_COMPARE: dict[str, Any] = {
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
    "<": LessThan,
    "<=": LessThanOrEqual,
}
_LOOKUP = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte", "=": "exact"}
_TURNED = {">": "lt", ">=": "lte", "<": "gt", "<=": "gte"}


def _measured(column: str) -> Callable[[Field], Q]:
    def condition(term: Field) -> Q:
        if term.op == "!=":
            return ~Q(**{column: int(term.value)})
        return Q(**{f"{column}__{_LOOKUP[term.op]}": int(term.value)})

    return condition


def _lasted(term: Field) -> Q:
    seconds, lasted = span(term.value), F("updated_at") - F("created_at")
    if term.op in _COMPARE:
        return Q(_COMPARE[term.op](lasted, seconds))
    equal = Q(GreaterThanOrEqual(lasted, seconds)) & Q(LessThan(lasted, seconds + 1))
    return ~equal if term.op == "!=" else equal


def _aged(column: str) -> Callable[[Field], Q]:
    """Return the condition on an age: the younger, the later the time."""
    return lambda term: Q(**{f"{column}__{_TURNED[term.op]}": moment(term.value)})


_COLUMNS: dict[str, Callable[[Field], Q]] = {
    "app": lambda term: Q(app_name=term.value),
    "user": lambda term: Q(user_id=term.value),
    "session": lambda term: Q(session_id__startswith=term.value),
    "title": lambda term: Q(title__icontains=term.value) | Q(title="", first_text__icontains=term.value),
    "origin": lambda term: _of_origin(term.value),
    "invocation": lambda term: _with_invocation(term.value),
    "events": _measured("last_seq"),
    "tokens": _measured("total_tokens"),
    "errors": _measured("error_count"),
    "duration": _lasted,
    "updated": _aged("updated_at"),
    "created": _aged("created_at"),
    "after": lambda term: Q(updated_at__gte=moment(term.value)),
    "before": lambda term: Q(updated_at__lt=moment(term.value)),
}


def _with_invocation(invocation_id: str) -> Q:
    return Q(Exists(Event.objects.filter(session=OuterRef("pk"), invocation_id=invocation_id)))


def _of_origin(origin: str) -> Q:
    evals = Q(realm__startswith=realms.ATTEMPT)
    return evals if origin == "eval" else Q(origin=origin) & ~evals


def _running() -> set[int]:
    rows = Run.objects.filter(status__in=Run.ACTIVE)
    return set(rows.values_list("session_id", flat=True)[:FEW])


def _waiting() -> set[int]:
    later = Run.objects.filter(session=OuterRef("session"), created_at__gt=OuterRef("created_at"))
    rows = Run.objects.filter(~Exists(later), status=Run.Status.WAITING)
    return set(rows.values_list("session_id", flat=True)[:FEW])


def _of_age(age: expiry.Age) -> Q:
    return Q(pk__in=expiry.aged(AgentSession.objects.all(), age).values("pk"))


_ARE: dict[str, Callable[[], Q | set[int]]] = {
    "pinned": lambda: Q(pinned_at__isnull=False),
    "error": lambda: Q(error_count__gt=0),
    "running": _running,
    "waiting": _waiting,
    "idle": lambda: _of_age(expiry.Age.IDLE),
    "expired": lambda: _of_age(expiry.Age.EXPIRED),
    "live": lambda: _of_origin("live"),
    "imported": lambda: _of_origin("import"),
    "forked": lambda: _of_origin("fork"),
    "eval": lambda: _of_origin("eval"),
}


# Terms about state


def _written(name: str) -> StateTerm:
    """Return the term that asks for a key that was ever written."""
    try:
        scope, key = state.scope_of(name)
    except ValueError:
        scope, key = Scope.SESSION, name
    return StateTerm(scope, key, when=When.EVER)


def _with_state(term: StateTerm, seen: _Tail, most: int) -> Q | set[int]:
    """Return the sessions whose state is or was as the term says. Missing and never are what is not, now or ever."""
    if term.when is When.MISSING:
        return _without(term, ~_is_now(term))
    if term.when is When.EVER:
        return _was_ever(term, seen, most)
    if term.when is When.NOW:
        return _keys_now(term, seen)
    if not term.op:
        return _without(
            term, ~_is_now(term) & ~_is_in_ledger(term)
        )  # what is there spares a look at the ledger
    was = _was_ever(term, seen, MANY)
    return ~(was if isinstance(was, Q) else _among(was))


def _is_now(term: StateTerm) -> Q:
    """Return the condition that the value which the session reads now is as the term says."""
    rows = _STATE_ROWS[term.scope].filter(key_id=state.key_id(term.key)).filter(compared("value", term))
    if term.scope is Scope.SESSION:
        return Q(Exists(rows.filter(owner=OuterRef("pk"))))
    owners = _OWNERS[term.scope].filter(_own_by_reference(term.scope))
    return Q(Exists(owners.filter(Exists(rows.filter(owner=OuterRef("pk"))))))


def _without(term: StateTerm, condition: Q) -> Q:
    """Test a condition on one session of each user or app, where real life has few of them, not on every session."""
    if term.scope is Scope.SESSION:
        return condition
    one_each = _one_of_each(term.scope)
    if len(one_each) > FEW:
        return condition
    lacking = AgentSession.objects.filter(condition, pk__in=_list_of(one_each)).values_list("pk", flat=True)
    found = _beside(term.scope, list(lacking))
    return _among(found) | ~Q(realm="") & condition if len(found) <= FEW else condition


def _keys_now(term: StateTerm, seen: _Tail) -> Q | set[int]:
    """Answer by keys where the index of values knows few owners that ever had such a value."""
    had = _owners_ever(term, seen, FEW_TO_CHECK)
    if had is None:
        return _is_now(term)
    rows = _STATE_ROWS[term.scope].filter(key_id=state.key_id(term.key), owner__in=_list_of(had))
    owners = set(rows.filter(compared("value", term)).values_list("owner", flat=True))
    return _sessions_of(term.scope, owners, FEW)


def _was_ever(term: StateTerm, seen: _Tail, most: int) -> Q | set[int]:
    had = _owners_ever(term, seen, most)
    return _is_in_ledger(term) if had is None else _sessions_of(term.scope, had, most)


def _is_in_ledger(term: StateTerm) -> Q:
    """Return the condition that a value was written which is as the term says."""
    rows = _written_values(term).filter(owner_id=OuterRef("pk"))
    if term.scope is Scope.SESSION:
        return Q(Exists(rows))
    owners = _OWNERS[term.scope].filter(_own_by_reference(term.scope))
    return Q(Exists(owners.filter(Exists(rows))))


def _written_values(term: StateTerm) -> QuerySet[StateChange]:
    """Return the rows of the ledger that a term asks for; a key was written when it has any: no row itself is read."""
    rows = StateChange.objects.filter(scope=term.scope, key_id=state.key_id(term.key))
    return rows.filter(compared("value", term), removed=False) if term.op or term.path else rows


def _owners_ever(term: StateTerm, seen: _Tail, most: int) -> set[int] | None:
    """Return the owners whose key ever had such a value, by the index of values; None: it cannot tell, or of too many.

    For what is now, that they may have had it is enough.
    """
    marks = marked(term)
    if not seen.has_all:
        return None
    rows = StateValue.objects.filter(marks, scope=term.scope, key_id=state.key_id(term.key))
    owners = _at_most(rows, FEW)
    if owners is None and most > FEW and not _is_common(~_is_in_ledger(term)):
        owners = _at_most(rows, most)
    if owners is None or len(owners) > most:
        return None
    if term.when is not When.NOW and not is_told_by_marks(term):
        if len(owners) > FEW_TO_CHECK:
            return None
        changes = _written_values(term).filter(owner_id__in=_list_of(owners))
        owners = set(changes.values_list("owner_id", flat=True))
    return owners | seen.owners(term)


def _at_most(rows: QuerySet[StateValue], most: int) -> set[int] | None:
    found = list(rows.values_list("owner_id", flat=True)[: ENTRIES * most + 1])
    return set(found) if len(found) <= ENTRIES * most else None


_SESSIONS = AgentSession._meta.db_table
_STATE_ROWS: dict[Scope, QuerySet[Any]] = {
    Scope.SESSION: SessionState.objects.all(),
    Scope.USER: UserState.objects.all(),
    Scope.APP: AppState.objects.all(),
}
_OWNERS: dict[Scope, QuerySet[Any]] = {
    Scope.USER: UserScope.objects.all(),
    Scope.APP: AppScope.objects.all(),
}
_IDENTITY = {Scope.USER: ("realm", "app_name", "user_id"), Scope.APP: ("realm", "app_name")}


def _own_by_reference(scope: Scope) -> Q:
    return Q(**{name: OuterRef(name) for name in _IDENTITY[scope]})


def _sessions_of(scope: Scope, owners: set[int], most: int) -> Q | set[int]:
    """Return the sessions that read the state of these owners."""
    if scope is Scope.SESSION or not owners:
        return owners
    rows = _OWNERS[scope].filter(pk__in=_list_of(owners))
    found = _joined(scope, owners, most)
    if len(found) <= most:
        return set(found)
    return Q(Exists(rows.filter(_own_by_reference(scope))))


def _joined(scope: Scope, owners: set[int], most: int) -> list[int]:
    """Return sessions of owners, at most one more than so many. Sessions name their owners, they do not point there."""
    return _sessions_like(_OWNERS[scope].model._meta.db_table, _IDENTITY[scope], owners, most)


def _beside(scope: Scope, pks: Iterable[int]) -> list[int]:
    """Return the sessions that share a user or an app with these ones, at most one more than `FEW`."""
    return _sessions_like(_SESSIONS, _IDENTITY[scope], pks, FEW)


def _sessions_like(table: str, identity: tuple[str, ...], pks: Iterable[int], most: int) -> list[int]:
    same = " AND ".join(f"s.{name} = o.{name}" for name in identity)
    listed, given = _listed(pks)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT s.id FROM {table} o CROSS JOIN {_SESSIONS} s WHERE o.id IN ({listed}) AND {same}"  # noqa: S608
            " LIMIT %s",
            [given, most + 1],
        )
        return [pk for (pk,) in cursor.fetchall()]


_ONE_OF_EACH = """
WITH RECURSIVE each(id, number) AS (
    SELECT (SELECT id FROM {table} WHERE realm = '' ORDER BY app_name, user_id LIMIT 1), 1
    UNION ALL
    SELECT coalesce({next}), number + 1 FROM each JOIN {table} o ON o.id = each.id WHERE number <= {most}
)
SELECT id FROM each WHERE id IS NOT NULL
"""
_NEXT_USER = """
(SELECT id FROM {table} WHERE realm = '' AND app_name = o.app_name AND user_id > o.user_id ORDER BY user_id LIMIT 1)
"""
_NEXT_APP = """
(SELECT id FROM {table} WHERE realm = '' AND app_name > o.app_name ORDER BY app_name, user_id LIMIT 1)
"""
_NEXT = {Scope.USER: f"{_NEXT_USER}, {_NEXT_APP}", Scope.APP: f"{_NEXT_APP}, NULL"}


def _one_of_each(scope: Scope) -> list[int]:
    """Return a session of real life for each user or app, at most one more than `FEW`.

    By skipping along the index of what names sessions: one or two seeks each, however many sessions they have.
    """
    step = _NEXT[scope].format(table=_SESSIONS)
    with connection.cursor() as cursor:
        cursor.execute(_ONE_OF_EACH.format(table=_SESSIONS, next=step, most=FEW))
        return [pk for (pk,) in cursor.fetchall()]


def _listed(pks: Iterable[int]) -> tuple[str, Any]:
    if connection.vendor == "sqlite":
        return "SELECT value FROM json_each(%s)", str(list(pks))
    return "SELECT unnest(%s::bigint[])", list(pks)


def _list_of(pks: Iterable[int]) -> RawSQL:
    sql, given = _listed(pks)
    return RawSQL(sql, [given])  # noqa: S611 - one of two constants


# Events of one session

EVENT_FIELDS = frozenset(
    {"kind", "author", "tool", "error", "key", "invocation", "branch", "after", "before", "is"}
)
"""Names of the terms that say something about events; of `is:` only `is:error` does."""


def _is_of_events(term: Field) -> bool:
    return term.name in EVENT_FIELDS and (term.name != "is" or term.value == "error")


def _of_event(term: Term, session: AgentSession, seen: _Tail, first: int, last: int) -> Q | None:
    """Return the condition on a session's events, without the term's negation; None: it says nothing about them."""
    if isinstance(term, Word):
        return _events_with_word(term.text, session, seen, first, last)
    if isinstance(term, StateTerm):
        return _events_writing(session, term)
    if term.name == "key":
        return _events_writing(session, _written(term.value))
    return _EVENTS[term.name](term.value) if _is_of_events(term) else None


def _events_with_word(text: str, session: AgentSession, seen: _Tail, first: int, last: int) -> Q:
    wanted = search.phrase(text)
    if wanted is None:
        return Q(pk__in=[])
    tail = [event.seq for event in seen.with_words(wanted)]
    return Q(seq__in=event_index.seqs(session.pk, wanted, first, last)) | Q(seq__in=tail)


def _events_writing(session: AgentSession, term: StateTerm) -> Q:
    """Return the events that wrote a value as the term says, whatever it says of when."""
    rows = StateChange.objects.filter(
        scope=term.scope, owner_id__in=_owner_of(session, term.scope), key_id=state.key_id(term.key)
    )
    written = rows.filter(compared("value", term), session=session)
    return Q(seq__in=written.values("seq"))


def _owner_of(session: AgentSession, scope: Scope) -> Any:
    if scope is Scope.SESSION:
        return [session.pk]
    same = {name: getattr(session, name) for name in _IDENTITY[scope]}
    return _OWNERS[scope].filter(**same).values("pk")


def _using(tool: str) -> Q:
    """Return the condition that an event calls a tool or brings its result, as `wire.summarise` writes it."""
    name = state.dumps(tool)
    return Q(kind__in=TOOL_KINDS) & (
        Q(summary__contains=f'"name":{name},"args":') | Q(summary__contains=f'"name":{name},"result":')
    )


def _failing(text: str) -> Q:
    failed = Q(kind=Kind.ERROR) | Q(kind__in=TOOL_KINDS, summary__contains='"failed":true')
    return failed & Q(summary__icontains=state.dumps(text)[1:-1])


_EVENTS: dict[str, Callable[[str], Q]] = {
    "kind": lambda value: Q(kind=value),
    "author": lambda value: Q(author=value),
    "tool": _using,
    "error": _failing,
    "invocation": lambda value: Q(invocation_id=value),
    "branch": lambda value: Q(branch=value),
    "after": lambda value: Q(timestamp__gte=moment(value)),
    "before": lambda value: Q(timestamp__lt=moment(value)),
    "is": lambda value: Q(kind=Kind.ERROR),
}


# Hits


def _hit_places(wanted: Query, pks: list[int]) -> dict[int, int]:
    """Return the seq of each session's hit: of the words, else of a trait, else of a value that was written."""
    terms = [found for word in wanted.words if not word.negated and (found := search.phrase(word.text))]
    if terms:
        return _places_of_words(terms, pks)
    traits = [term for term in wanted.fields if term.name in _TRAITS and not term.negated]
    if traits:
        return _places_of_trait(traits[-1], pks)
    written = [term for term in wanted.states if _tells_an_event(term)]
    return _places_of_value(written[-1], pks) if written else {}


def _places_of_words(terms: list[search.Term], pks: list[int]) -> dict[int, int]:
    """Prefer an event that holds all words to one that holds any, and then a newer one."""
    shown, seen = set(pks), _Tail()
    all_of_tail: dict[int, int] = {}
    any_of_tail: dict[int, int] = {}
    for event in reversed(seen.events):
        held = [seen.holds(event, term) for term in terms] if event.session_id in shown else []
        if any(held):
            any_of_tail[event.session_id] = event.seq
        if held and all(held):
            all_of_tail[event.session_id] = event.seq
    some = event_index.newest(pks, terms, every=False) | any_of_tail
    every = event_index.newest(pks, terms, every=True) if len(terms) > 1 else {}
    return some | every | all_of_tail


def _places_of_trait(term: Field, pks: list[int]) -> dict[int, int]:
    rows, matches = _trait(term.name, term.value)
    places = dict(rows.filter(session__in=pks).order_by().values_list("session").annotate(Max("seq")))
    shown = set(pks)
    found = [event for event in _Tail().with_trait(matches) if event.session_id in shown]
    return places | {event.session_id: event.seq for event in reversed(found)}


def _tells_an_event(term: StateTerm) -> bool:
    return term.scope is Scope.SESSION and term.when in (When.NOW, When.EVER) and not term.negated


def _places_of_value(term: StateTerm, pks: list[int]) -> dict[int, int]:
    """Return the newest events that wrote a value as a term about a session's own state says."""
    rows = StateChange.objects.filter(
        scope=Scope.SESSION, owner_id__in=pks, key_id=state.key_id(term.key), removed=False, seq__gt=0
    )
    found = rows.filter(compared("value", term)).order_by()
    return dict(found.values_list("owner_id").annotate(Max("seq")))


def _shown(event: Event) -> str:
    """Return the text that a hit is shown out of."""
    return (
        found_by.text_of(event.data) if len(event.data) <= SUMMARISED else found_by.summary_of(event.summary)
    )
