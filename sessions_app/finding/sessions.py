"""Queries over sessions: those that a query asks for, and by which event each is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import and_

from django.db.models import Q, QuerySet

from sessions_app.finding import hits, ids, stated, traits
from sessions_app.finding.answers import SAMPLE, Answer, Many, among, is_common
from sessions_app.finding.columns import with_column
from sessions_app.finding.tail import Tail
from sessions_app.finding.words import with_word
from sessions_app.models import AgentSession
from sessions_app.query import Query, StateTerm, Term, Word

Rows = QuerySet[AgentSession]


class Search:
    """A query over sessions. What no index has yet is looked at once for all that is asked of it."""

    def __init__(self, wanted: Query) -> None:
        self.wanted = wanted
        self._tail = Tail()

    def narrowed(self, rows: Rows) -> Rows:
        """Return those of the sessions that are asked for. It asks the indexes at once, the rest when it is read."""
        keys: set[int] | None = None
        many: list[tuple[Term, Many]] = []
        for term in self.wanted.terms:
            answer = _answer(term, self._tail)
            if isinstance(answer, Many):
                many.append((term, answer))
            elif not term.negated:
                keys = answer if keys is None else keys & answer
            elif answer:
                rows = rows.exclude(among(answer))
        if keys is not None:
            rows = rows.filter(among(keys))
        return rows.filter(*_conditions(many, keys))

    def hits(self, sessions: Sequence[AgentSession]) -> dict[int, hits.Hit]:
        """Return by which event each of the sessions is found, as far as a term is about events."""
        return hits.of(self.wanted, sessions, self._tail)


def _conditions(many: list[tuple[Term, Many]], keys: set[int] | None) -> list[Q]:
    """Return what is tested on each session, or asked of lists where the sessions wanted are far between.

    A list is made at once, which takes as long as a few hundred tests for a word, and some ten thousand for others.
    """
    tests = [_turned(term, answer.test) for term, answer in many]
    if all(answer.listed is None for _, answer in many):
        return tests
    is_scattered = len(keys) > SAMPLE if keys is not None else not is_common(reduce(and_, tests))
    if not is_scattered:
        return tests
    return [_turned(term, answer.test if answer.listed is None else answer.listed()) for term, answer in many]


def _turned(term: Term, condition: Q) -> Q:
    return ~condition if term.negated else condition


def _answer(term: Term, tail: Tail) -> Answer:
    """Return the sessions of a term, without its negation."""
    if isinstance(term, Word):
        return with_word(term, tail)
    if isinstance(term, StateTerm):
        return stated.with_state(term, tail)
    if term.name == "key":
        return stated.with_state(replace(stated.written(term.value), negated=term.negated), tail)
    if term.name in traits.NAMES:
        return traits.with_trait(term, tail)
    if term.name in ids.COLUMNS:
        return ids.with_id(term, tail)
    return with_column(term)
