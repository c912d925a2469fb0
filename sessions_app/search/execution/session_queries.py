"""Queries over sessions: those that a query asks for, and by which event each is found."""

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
    """How sessions are found.

    Attributes:
        of: what indexes find.
        tests: what is tested on each of these, where sessions that pass may be far between; empty: `of` says all.
    """

    of: list[Q]
    tests: list[Q]


class Search:
    """A query over sessions. What no index has yet is looked at once for all that is asked of it."""

    def __init__(self, wanted: Query, *, goes_on: bool = False) -> None:
        """Take what is asked for, and whether a look through the sessions goes on: then there is nothing to weigh."""
        self.wanted = wanted
        self._goes_on = goes_on
        self._tail = UnindexedTail()

    def narrowed(self, rows: Rows) -> Rows:
        """Return those of the sessions that are asked for. It asks the indexes at once, the rest when it is read."""
        return rows.filter(*self.plan.of, *self.plan.tests)

    @cached_property
    def plan(self) -> SearchPlan:
        """How the sessions that are asked for are found. It asks the indexes."""
        keys: set[int] | None = None
        many: list[ConditionSet] = []
        for term in self.wanted.terms:
            answer = _find_sessions(term, self._tail)
            answer = complement_of(answer) if term.negated else answer
            if isinstance(answer, ConditionSet):
                many.append(answer)
            else:
                keys = answer if keys is None else keys & answer
        of = [each.test for each in many if each.is_sought]
        tested = [each for each in many if not each.is_sought]
        if keys is not None:
            return SearchPlan([in_keys(keys), *of, *_tests_of(tested)], [])
        if self._goes_on or not tested:
            return SearchPlan(of, _tests_of(tested))
        return _make_plan(of, tested)

    def hits(self, sessions: Sequence[AgentSession]) -> dict[int, hits.Hit]:
        """Return by which event each of the sessions is found, as far as a term is about events."""
        return hits.find_hits(self.wanted, sessions, self._tail)


def _make_plan(of: list[Q], many: list[ConditionSet]) -> SearchPlan:
    """Return how sessions are found of which no index tells all at once.

    A list is made at once, which takes as long as a few hundred tests for a word, and some ten thousand for others. So
    one is made of what is far between, where most of its sessions pass the other tests; of two, a short one. Else
    sessions are looked through, of which each look says how far it came.

    Args:
        of: what all of them are, by an index.
        many: what they are besides.
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
        found = [each.test if listed is None else listed for each, listed in zip(many, lists, strict=True)]
        return SearchPlan([*of, *found], [])
    return SearchPlan(of, tests)


def _except(one: ConditionSet, many: list[ConditionSet]) -> list[ConditionSet]:
    return [each for each in many if each is not one]


def _are_common(rest: list[ConditionSet], rare: ConditionSet, of: list[Q]) -> bool:
    """Tell whether enough of the sessions of a rare answer pass the other tests."""
    if not rest:
        return True
    listed = in_keys(rare.some) if rare.some else _list_sessions(rare, LONGEST_LIST)
    return listed is not None and is_common(*_tests_of(rest), of=[*of, listed])


def _tests_of(many: list[ConditionSet]) -> list[Q]:
    return [each.test for each in many]


def _list_sessions(answer: ConditionSet, most: int) -> Q | None:
    return None if answer.listed is None else answer.listed(most)


def _few_keys(listed: Q | None) -> set[int] | None:
    """Return the sessions on a list; None: there is no list, or they are more than `FEW_SHARED`."""
    if listed is None:
        return None
    keys = set(AgentSession.objects.filter(listed).values_list("pk", flat=True)[: FEW_SHARED + 1])
    return keys if len(keys) <= FEW_SHARED else None


def _find_sessions(term: Term, tail: UnindexedTail) -> SessionSet:
    """Return the sessions of a term, without its negation."""
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
