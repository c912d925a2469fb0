"""Queries over sessions: those that a query asks for, and by which event each is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from django.db.models import Q, QuerySet

from sessions_app.finding import hits, ids, stated, traits
from sessions_app.finding.answers import SAMPLE, Answer, Many, among, is_common, turned
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
        many: list[Many] = []
        for term in self.wanted.terms:
            answer = _answer(term, self._tail)
            answer = turned(answer) if term.negated else answer
            if isinstance(answer, Many):
                many.append(answer)
            else:
                keys = answer if keys is None else keys & answer
        if keys is not None:
            rows = rows.filter(among(keys))
        return rows.filter(*_conditions(many, keys))

    def hits(self, sessions: Sequence[AgentSession]) -> dict[int, hits.Hit]:
        """Return by which event each of the sessions is found, as far as a term is about events."""
        return hits.of(self.wanted, sessions, self._tail)


def _conditions(many: list[Many], keys: set[int] | None) -> list[Q]:
    """Return what is tested on each session, or asked of lists where the sessions wanted are far between.

    A list is made at once, which takes as long as a few hundred tests for a word, and some ten thousand for others. So
    those are tested that most of the sessions on the lists of the others pass.
    """
    tests = [each.test for each in many]
    if all(each.listed is None for each in many):
        return tests
    if len(keys) <= SAMPLE if keys is not None else is_common(*tests):
        return tests
    rare = [] if len(many) == 1 else [each for each in many if each.listed and not is_common(each.test)]
    rest = [each for each in many if each not in rare]
    found = [_listed(each) for each in rare]
    others = [each.test for each in rest]
    if others and (not found or not is_common(*others, of=found)):
        others = [_listed(each) for each in rest]
    return [*found, *others]


def _listed(answer: Many) -> Q:
    return answer.test if answer.listed is None else answer.listed()


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
