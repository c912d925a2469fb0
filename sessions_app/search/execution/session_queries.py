"""Search over sessions: a plan of conditions and tests, and the hit of each session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from django.db.models import Q, QuerySet

from sessions_app.models import AgentSession, EventKind
from sessions_app.search.execution import hits, id_terms, state_terms, trait_terms
from sessions_app.search.execution.column_terms import find_by_column
from sessions_app.search.execution.session_sets import (
    FEW_SHARED,
    LONGEST_LIST,
    ConditionSet,
    SessionSet,
    complement_of,
    in_keys,
    is_common,
)
from sessions_app.search.execution.unindexed_scan import UnindexedTail
from sessions_app.search.execution.word_terms import find_by_word
from sessions_app.search.query import Query, StateTerm, Term, Word

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

    def __init__(self, query: Query, *, is_resumed: bool = False) -> None:
        """Take the query, and whether a scan of the sessions is resumed: then no plan is weighed."""
        self.query = query
        self._is_resumed = is_resumed
        self._tail = UnindexedTail()

    def filter_rows(self, rows: Rows) -> Rows:
        """Return the matching sessions of `rows`. Indexes are queried at once, the rest when the result is read."""
        return rows.filter(*self.plan.of, *self.plan.tests)

    @cached_property
    def plan(self) -> SearchPlan:
        """The plan of the query. Building it queries the indexes."""
        keys: set[int] | None = None
        many: list[ConditionSet] = []
        for term in self.query.terms:
            matches = _find_sessions(term, self._tail)
            matches = complement_of(matches) if term.negated else matches
            if isinstance(matches, ConditionSet):
                many.append(matches)
            else:
                keys = matches if keys is None else keys & matches
        of = [each.test for each in many if each.is_sought]
        tested = [each for each in many if not each.is_sought]
        if keys is not None:
            return SearchPlan([in_keys(keys), *of, *_tests_of(tested)], [])
        if self._is_resumed or not tested:
            return SearchPlan(of, _tests_of(tested))
        return _make_plan(of, tested)

    def hits(self, sessions: Sequence[AgentSession]) -> dict[int, hits.Hit]:
        """Return the hit of each session, where a term is about events."""
        return hits.find_hits(self.query, sessions, self._tail)


def _make_plan(of: list[Q], many: list[ConditionSet]) -> SearchPlan:
    """Return the plan for sets of which none is small.

    Making a list takes as long as a few hundred word tests, or some ten thousand others. So a list is made of a rare
    set most of whose sessions pass the other tests; of two rare sets, the short one. Otherwise sessions are scanned,
    and each scan reports its progress.

    Args:
        of: conditions that an index answers.
        many: the other sets.
    """
    tests = _tests_of(many)
    if all(each.listed is None for each in many) or is_common(*tests, of=of):
        return SearchPlan(of, tests)
    rare = [each for each in many if each.listed and (len(many) == 1 or not is_common(each.test, of=of))]
    for each in rare if len(many) > 1 else []:
        keys = _few_keys(_list_sessions(each, FEW_SHARED))
        if keys is not None:
            return SearchPlan([*of, in_keys(keys), *_tests_of(_except(each, many))], [])
    if len(rare) == 1 and _are_common(_except(rare[0], many), rare[0], of):
        listed = _list_sessions(rare[0], LONGEST_LIST)
        return (
            SearchPlan(of, tests)
            if listed is None
            else SearchPlan([*of, listed, *_tests_of(_except(rare[0], many))], [])
        )
    lists = (
        [_list_sessions(each, LONGEST_LIST) for each in many] if any(each.is_slow for each in many) else []
    )
    if any(listed is not None for listed in lists):
        conditions = [
            each.test if listed is None else listed for each, listed in zip(many, lists, strict=True)
        ]
        return SearchPlan([*of, *conditions], [])
    return SearchPlan(of, tests)


def _except(excluded: ConditionSet, many: list[ConditionSet]) -> list[ConditionSet]:
    return [each for each in many if each is not excluded]


def _are_common(rest: list[ConditionSet], rare: ConditionSet, of: list[Q]) -> bool:
    """Return whether enough sessions of a rare set pass the other tests."""
    if not rest:
        return True
    listed = in_keys(rare.some) if rare.some else _list_sessions(rare, LONGEST_LIST)
    return listed is not None and is_common(*_tests_of(rest), of=[*of, listed])


def _tests_of(many: list[ConditionSet]) -> list[Q]:
    return [each.test for each in many]


def _list_sessions(matches: ConditionSet, most: int) -> Q | None:
    return None if matches.listed is None else matches.listed(most)


def _few_keys(listed: Q | None) -> set[int] | None:
    """Return the sessions on a list; None if there is no list or more than `FEW_SHARED` sessions."""
    if listed is None:
        return None
    keys = set(AgentSession.objects.filter(listed).values_list("pk", flat=True)[: FEW_SHARED + 1])
    return keys if len(keys) <= FEW_SHARED else None


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
    if term.name == "kind" and term.value == EventKind.ERROR:  # as `is:error`, which counts failed tools, too
        return find_by_column(replace(term, name="is"))
    if term.name in trait_terms.TRAIT_NAMES:
        return trait_terms.find_by_trait(term, tail)
    if term.name in id_terms.COLUMNS:
        return id_terms.find_by_id(term, tail)
    return find_by_column(term)
