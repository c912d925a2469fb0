"""Queries over sessions: those that a query asks for, and by which event each is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from django.db.models import Q, QuerySet

from sessions_app.models import AgentSession, EventKind
from sessions_app.search.execution import hits, id_terms, state_terms, trait_terms
from sessions_app.search.execution.column_terms import with_column
from sessions_app.search.execution.session_sets import (
    FEW_SHARED,
    LONG,
    Answer,
    Many,
    among,
    is_common,
    turned,
)
from sessions_app.search.execution.unindexed_scan import Tail
from sessions_app.search.execution.word_terms import with_word
from sessions_app.search.query import Query, StateTerm, Term, Word

Rows = QuerySet[AgentSession]


class Plan(NamedTuple):
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
        self._tail = Tail()

    def narrowed(self, rows: Rows) -> Rows:
        """Return those of the sessions that are asked for. It asks the indexes at once, the rest when it is read."""
        return rows.filter(*self.plan.of, *self.plan.tests)

    @cached_property
    def plan(self) -> Plan:
        """How the sessions that are asked for are found. It asks the indexes."""
        keys: set[int] | None = None
        many: list[Many] = []
        for term in self.wanted.terms:
            answer = _answer(term, self._tail)
            answer = turned(answer) if term.negated else answer
            if isinstance(answer, Many):
                many.append(answer)
            else:
                keys = answer if keys is None else keys & answer
        of = [each.test for each in many if each.is_sought]
        tested = [each for each in many if not each.is_sought]
        if keys is not None:
            return Plan([among(keys), *of, *_tests(tested)], [])
        if self._goes_on or not tested:
            return Plan(of, _tests(tested))
        return _planned(of, tested)

    def hits(self, sessions: Sequence[AgentSession]) -> dict[int, hits.Hit]:
        """Return by which event each of the sessions is found, as far as a term is about events."""
        return hits.of(self.wanted, sessions, self._tail)


def _planned(of: list[Q], many: list[Many]) -> Plan:
    """Return how sessions are found of which no index tells all at once.

    A list is made at once, which takes as long as a few hundred tests for a word, and some ten thousand for others. So
    one is made of what is far between, where most of its sessions pass the other tests; of two, a short one. Else
    sessions are looked through, of which each look says how far it came.

    Args:
        of: what all of them are, by an index.
        many: what they are besides.
    """
    tests = _tests(many)
    if all(each.listed is None for each in many) or is_common(*tests, of=of):
        return Plan(of, tests)
    rare = [each for each in many if each.listed and (len(many) == 1 or not is_common(each.test, of=of))]
    for each in rare if len(many) > 1 else []:
        keys = _few(_listed(each, FEW_SHARED))
        if keys is not None:
            return Plan([*of, among(keys), *_tests(_but(each, many))], [])
    if len(rare) == 1 and _are_common(_but(rare[0], many), rare[0], of):
        listed = _listed(rare[0], LONG)
        return Plan(of, tests) if listed is None else Plan([*of, listed, *_tests(_but(rare[0], many))], [])
    lists = [_listed(each, LONG) for each in many] if any(each.is_slow for each in many) else []
    if any(listed is not None for listed in lists):
        found = [each.test if listed is None else listed for each, listed in zip(many, lists, strict=True)]
        return Plan([*of, *found], [])
    return Plan(of, tests)


def _but(one: Many, many: list[Many]) -> list[Many]:
    return [each for each in many if each is not one]


def _are_common(rest: list[Many], rare: Many, of: list[Q]) -> bool:
    """Tell whether enough of the sessions of a rare answer pass the other tests."""
    if not rest:
        return True
    listed = among(rare.some) if rare.some else _listed(rare, LONG)
    return listed is not None and is_common(*_tests(rest), of=[*of, listed])


def _tests(many: list[Many]) -> list[Q]:
    return [each.test for each in many]


def _listed(answer: Many, most: int) -> Q | None:
    return None if answer.listed is None else answer.listed(most)


def _few(listed: Q | None) -> set[int] | None:
    """Return the sessions on a list; None: there is no list, or they are more than `FEW_SHARED`."""
    if listed is None:
        return None
    keys = set(AgentSession.objects.filter(listed).values_list("pk", flat=True)[: FEW_SHARED + 1])
    return keys if len(keys) <= FEW_SHARED else None


def _answer(term: Term, tail: Tail) -> Answer:
    """Return the sessions of a term, without its negation."""
    if isinstance(term, Word):
        return with_word(term, tail)
    if isinstance(term, StateTerm):
        return state_terms.with_state(term, tail)
    if term.name == "key":
        return state_terms.with_state(replace(state_terms.written(term.value), negated=term.negated), tail)
    if term.name == "kind" and term.value == EventKind.ERROR:  # as `is:error`, which counts failed tools, too
        return with_column(replace(term, name="is"))
    if term.name in trait_terms.NAMES:
        return trait_terms.with_trait(term, tail)
    if term.name in id_terms.COLUMNS:
        return id_terms.with_id(term, tail)
    return with_column(term)
