"""Queries within one session: its events that match the terms that say something about events."""

from __future__ import annotations

from collections.abc import Callable

from django.db import connection
from django.db.models import F, Q, QuerySet, Value
from django.db.models.lookups import GreaterThanOrEqual, LessThanOrEqual

from sessions_app import scopes
from sessions_app.models import AgentSession, Event, EventKind, Scope, StateChange
from sessions_app.search import event_index
from sessions_app.search.execution.state_owners import owner_keys
from sessions_app.search.execution.state_terms import written_key_term
from sessions_app.search.execution.unindexed_scan import UnindexedTail
from sessions_app.search.query import Field, Query, StateTerm, Term, Word, parse_time
from sessions_app.search.state_conditions import value_condition
from sessions_app.store import tokens
from sessions_app.store.json_sql import COUNTS_AS_ERROR

EVENT_FIELDS = frozenset(
    {"kind", "author", "tool", "error", "key", "event", "invocation", "branch", "after", "before", "is"}
)
"""Names of the terms that say something about events; of `is:` only `is:error` does."""

TOOL_KINDS = (EventKind.TOOL_CALL, EventKind.TOOL_RESULT, EventKind.ERROR)


def session_terms(wanted: Query) -> list[Term]:
    """Return the terms of a query that say nothing about events, which a search in a session leaves out."""
    return [term for term in wanted.terms if isinstance(term, Field) and not _is_of_events(term)]


class EventQuery:
    """A query within a session. A stretch of it is cheaper than the whole where a word is in most of its events."""

    def __init__(self, session: AgentSession, wanted: Query) -> None:
        self.session = session
        self.wanted = wanted
        self._tail = UnindexedTail(session)

    def between(self, first: int, last: int) -> QuerySet[Event]:
        """Return the events from a seq to another that match, oldest first. Terms about the session are left out."""
        rows = Event.objects.filter(session=self.session)
        is_listed = False
        for term in self.wanted.terms:
            condition = self._condition(term, first, last)
            if condition is not None:
                rows = rows.exclude(condition) if term.negated else rows.filter(condition)
                is_listed = is_listed or (_has_index(term) and not term.negated)
        return rows.filter(_range_condition(first, last, is_sought=not is_listed)).order_by("seq")

    def _condition(self, term: Term, first: int, last: int) -> Q | None:
        """Return the condition of a term, without its negation; None: it says nothing about events."""
        if isinstance(term, Word):
            return self._with_word(term.text, first, last)
        if isinstance(term, StateTerm):
            return self._writing(term, first, last)
        if term.name == "key":
            return self._writing(written_key_term(term.value), first, last)
        return _FIELD_CONDITIONS[term.name](term.value) if _is_of_events(term) else None

    def _with_word(self, text: str, first: int, last: int) -> Q:
        wanted = tokens.parse_phrase(text)
        if wanted is None:
            return Q(pk__in=[])
        tail = [event.seq for event in self._tail.with_words(wanted)]
        return Q(seq__in=event_index.seqs_subquery(self.session.pk, wanted, first, last)) | Q(seq__in=tail)

    def _writing(self, term: StateTerm, first: int, last: int) -> Q:
        """Return the events that wrote a value as the term says, whatever it says of when."""
        rows = StateChange.objects.filter(
            scope=term.scope,
            owner_id__in=owner_keys(self.session, term.scope),
            key_id=scopes.key_id(term.key),
            session=self.session,
        )
        if term.scope is Scope.SESSION:  # a seq is a position there, by which the index of a key is sorted
            rows = rows.filter(position__gte=first, position__lte=last)
        return Q(seq__in=rows.filter(value_condition("value", term)).values("seq"))


def _has_index(term: Term) -> bool:
    """Tell whether an index lists the events of a term."""
    return not isinstance(term, Field) or term.name == "key"


def _range_condition(first: int, last: int, *, is_sought: bool) -> Q:
    """Return the condition that an event is of a stretch. Where others list its events SQLite is not to walk all of it.

    Args:
        first, last: seqs of the stretch.
        is_sought: whether the index of seqs is to find it.
    """
    seq = F("seq") if is_sought or connection.vendor != "sqlite" else F("seq") + Value(0)
    return Q(GreaterThanOrEqual(seq, first)) & Q(LessThanOrEqual(seq, last))


def _is_of_events(term: Field) -> bool:
    return term.name in EVENT_FIELDS and (term.name != "is" or term.value == "error")


def _tool_condition(tool: str) -> Q:
    """Return the condition that an event calls a tool or brings its result, as `wire.summarise` writes it."""
    name = scopes.dumps(tool)
    return Q(kind__in=TOOL_KINDS) & (
        Q(summary__contains=f'"name":{name},"args":') | Q(summary__contains=f'"name":{name},"result":')
    )


def _error_condition(text: str) -> Q:
    return COUNTS_AS_ERROR & Q(summary__icontains=scopes.dumps(text)[1:-1])


_FIELD_CONDITIONS: dict[str, Callable[[str], Q]] = {
    "kind": lambda value: COUNTS_AS_ERROR if value == EventKind.ERROR else Q(kind=value),
    "author": lambda value: Q(author=value),
    "tool": _tool_condition,
    "error": _error_condition,
    "event": lambda value: Q(event_id=value),
    "invocation": lambda value: Q(invocation_id=value),
    "branch": lambda value: Q(branch=value),
    "after": lambda value: Q(timestamp__gte=parse_time(value)),
    "before": lambda value: Q(timestamp__lt=parse_time(value)),
    "is": lambda value: COUNTS_AS_ERROR,
}
