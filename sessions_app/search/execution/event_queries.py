"""Queries within one session: its events that match the terms about events."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from django.db import connection
from django.db.models import F, Q, QuerySet, Value
from django.db.models.lookups import GreaterThanOrEqual, LessThanOrEqual

from sessions_app.search import nested_content
from sessions_app.search.execution import field_terms
from sessions_app.search.execution.scans import UnindexedTail
from sessions_app.search.execution.state_terms import owner_keys, written_key_term
from sessions_app.search.query.terms import Field, Query, StateTerm, Term, Word
from sessions_app.search.query.times import parse_time
from sessions_app.search.state_conditions import value_condition
from sessions_app.store import scopes
from sessions_app.store.database.json_sql import COUNTS_AS_ERROR
from sessions_app.store.database.tokens import Phrase
from sessions_app.store.events.conditions import MAY_NAME_TOOLS
from sessions_app.store.events.kinds import EventKind
from sessions_app.store.index import event_index
from sessions_app.store.models import (
    AgentSession,
    Event,
    NestedRun,
    Scope,
    SessionProblem,
    StateChange,
)

EVENT_FIELDS = frozenset(
    {
        "kind",
        "author",
        "tool",
        "error",
        "key",
        "event",
        "invocation",
        "branch",
        "after",
        "before",
        "is",
        "problem",
        "judged",
        *field_terms.LOG_NAMES,
    }
)
"""Names of terms about events; of `is:` only `is:error`."""


NESTED_FIELDS = frozenset({"kind", "author", "tool", "error"})
"""Names of terms that an event also meets by the events of a nested run inside it."""


def session_terms(query: Query) -> list[Term]:
    """Return the terms of a query that are not about events; a search within a session ignores them."""
    return [term for term in query.terms if isinstance(term, Field) and not _is_about_events(term)]


class EventQuery:
    """A query within a session, run for a range of seqs: cheaper than the whole where most events match."""

    def __init__(self, session: AgentSession, query: Query) -> None:
        self.session = session
        self.query = query
        self._tail = UnindexedTail(session)

    def matching_events(self, first: int, last: int) -> QuerySet[Event]:
        """Return the matching events from seq `first` to `last`, oldest first. Terms not about events are ignored."""
        rows = Event.objects.filter(session=self.session)
        is_listed = False
        for term in self.query.terms:
            condition = self._term_condition(term, first, last)
            if condition is not None:
                rows = rows.exclude(condition) if term.negated else rows.filter(condition)
                has_index = not isinstance(term, Field) or term.name == "key"
                is_listed = is_listed or (has_index and not term.negated)
        return rows.filter(_range_condition(first, last, is_sought=not is_listed)).order_by("seq")

    def _term_condition(self, term: Term, first: int, last: int) -> Q | None:
        """Return the condition of a term, ignoring its negation; None if it is not about events."""
        if isinstance(term, Word):
            return self._word_condition(term.phrase, first, last)
        if isinstance(term, StateTerm):
            return self._state_condition(term, first, last)
        if term.name == "problem":
            problems = SessionProblem.objects.filter(session=self.session, code=term.value)
            return Q(seq__in=problems.values("seq"))
        if term.name == "judged":
            return field_terms.is_judged(term.value, self.session)
        if term.name in field_terms.LOG_NAMES:
            return field_terms.precedes_record(term, self.session)
        if term.name == "key":
            return self._state_condition(written_key_term(term.value), first, last)
        if not _is_about_events(term):
            return None
        condition = _FIELD_CONDITIONS[term.name](term.value)
        if term.name in NESTED_FIELDS and self._has_nested_runs:
            condition |= nested_content.has_nested(self.session, condition, first, last)
        return condition

    @cached_property
    def _has_nested_runs(self) -> bool:
        return NestedRun.objects.filter(Q(outer=self.session) | Q(caller=self.session)).exists()

    def _word_condition(self, phrase: Phrase | None, first: int, last: int) -> Q:
        if phrase is None:
            return Q(pk__in=[])
        tail = [event.seq for event in self._tail.events_with_phrase(phrase)]
        return Q(seq__in=event_index.seqs_subquery(self.session.pk, phrase, first, last)) | Q(seq__in=tail)

    def _state_condition(self, term: StateTerm, first: int, last: int) -> Q:
        """Return the condition that an event wrote a matching value; `ever`, `missing` and `never` are ignored."""
        rows = StateChange.objects.filter(
            scope=term.scope,
            owner_id__in=owner_keys(self.session, term.scope),
            key_id=scopes.key_id(term.key),
            session=self.session,
        )
        if term.scope is Scope.SESSION:  # a seq is a position there, by which the index of a key is sorted
            rows = rows.filter(position__gte=first, position__lte=last)
        return Q(seq__in=rows.filter(value_condition(term)).values("seq"))


def _range_condition(first: int, last: int, *, is_sought: bool) -> Q:
    """Return the condition that an event is in a range of seqs.

    Args:
        first, last: seqs of the range.
        is_sought: whether the index of seqs should be used; if other indexes list the events, SQLite should not walk
            the range.
    """
    seq = F("seq") if is_sought or connection.vendor != "sqlite" else F("seq") + Value(0)
    return Q(GreaterThanOrEqual(seq, first)) & Q(LessThanOrEqual(seq, last))


def _is_about_events(term: Field) -> bool:
    return term.name in EVENT_FIELDS and (term.name != "is" or term.value == "error")


def _tool_condition(tool: str) -> Q:
    """Return the condition that an event calls a tool or has its result, in the form of `events.summarize`."""
    name = scopes.dumps(tool)
    return MAY_NAME_TOOLS & (
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
