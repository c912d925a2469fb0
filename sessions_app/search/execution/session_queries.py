"""Search over all sessions: indexed conditions first, then tests per session, and a hit for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from django.db.models import Q, QuerySet

from sessions_app.search.execution import event_terms, hits, state_terms
from sessions_app.search.execution.column_terms import find_by_column, has_index
from sessions_app.search.execution.event_terms import find_by_word
from sessions_app.search.execution.session_sets import SessionSet, membership_condition
from sessions_app.search.execution.unindexed_scan import UnindexedTail
from sessions_app.search.query.terms import Query, StateTerm, Term, Word
from sessions_app.store.events.kinds import EventKind
from sessions_app.store.models import AgentSession

Rows = QuerySet[AgentSession]


class SearchPlan(NamedTuple):
    """The conditions that find the sessions of a query.

    Attributes:
        of: conditions that indexes answer.
        tests: conditions tested on each of these, where matches may be rare; empty: `of` is sufficient.
    """

    of: list[Q]
    tests: list[Q]


class Search:
    """A query over sessions. Unindexed events are read once for all its terms."""

    def __init__(self, query: Query) -> None:
        """Take the query."""
        self.query = query
        self._tail = UnindexedTail()

    def filter_rows(self, rows: Rows) -> Rows:
        """Return the matching sessions of `rows`. Indexes are queried at once, the rest when the result is read."""
        return rows.filter(*self.plan.of, *self.plan.tests)

    @cached_property
    def plan(self) -> SearchPlan:
        """The plan of the query. Building it queries the indexes."""
        keys: set[int] | None = None
        of: list[Q] = []
        tests: list[Q] = []
        for term in self.query.terms:
            matches = _find_sessions(term, self._tail)
            if isinstance(matches, set) and not term.negated:
                keys = matches if keys is None else keys & matches
            elif has_index(term) and not term.negated:
                of.append(membership_condition(matches))
            else:
                tests.append(membership_condition(matches, negated=term.negated))
        if keys is not None:
            return SearchPlan([membership_condition(keys), *of, *tests], [])
        return SearchPlan(of, tests)

    def hits(self, sessions: Sequence[AgentSession]) -> dict[int, hits.Hit]:
        """Return the hit of each session, where a term is about events."""
        return hits.find_hits(self.query, sessions, self._tail)


def _find_sessions(term: Term, tail: UnindexedTail) -> SessionSet:
    """Return the sessions that match a term, ignoring its negation."""
    if isinstance(term, Word):
        return find_by_word(term, tail)
    if isinstance(term, StateTerm):
        return state_terms.find_by_state(term, tail)
    if term.name == "key":
        return state_terms.find_by_state(
            replace(state_terms.written_key_term(term.value), negated=term.negated), tail
        )
    if term.name == "kind" and term.value == EventKind.ERROR:  # as `is:error`, and errors of nested runs
        own_errors = membership_condition(find_by_column(replace(term, name="is")))
        return own_errors | membership_condition(event_terms.find_by_trait(term, tail))
    if term.name in event_terms.LOG_NAMES:
        return event_terms.has_record(term)
    if term.name in event_terms.INVOCATION_NAMES:
        return event_terms.find_by_invocation(term)
    if term.name in event_terms.TRAIT_NAMES:
        return event_terms.find_by_trait(term, tail)
    if term.name in event_terms.ID_COLUMNS:
        return event_terms.find_by_id(term, tail)
    return find_by_column(term)
