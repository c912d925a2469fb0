"""Queries over sessions: those that a query asks for, and by which event each is found."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import QuerySet

from sessions_app.finding import hits, ids, stated, traits
from sessions_app.finding.answers import FEW, FEW_TO_CHECK, MANY, Answer, among
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
        narrowing = _Narrowing(rows)
        answers = [(term, _answer(term, self._tail)) for term in self.wanted.terms]
        for term, answer in answers:
            if isinstance(answer, set):
                narrowing.by(term, answer)
        is_scattered = narrowing.keys is not None and len(narrowing.keys) > FEW_TO_CHECK
        for term, answer in answers:
            if isinstance(answer, set):
                continue
            if is_scattered and isinstance(term, Word):
                answer = with_word(term, self._tail, is_scattered=True)
            narrowing.by(term, answer)
        return narrowing.rows_left

    def hits(self, sessions: Sequence[AgentSession]) -> dict[int, hits.Hit]:
        """Return by which event each of the sessions is found, as far as a term is about events."""
        return hits.of(self.wanted, sessions, self._tail)


class _Narrowing:
    """Sessions that answers make fewer and fewer: a query of them, and the keys that they must have."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.keys: set[int] | None = None

    def by(self, term: Term, answer: Answer) -> None:
        """Leave what a term asks for."""
        if isinstance(answer, set):
            self._by_keys(answer, negated=term.negated)
        else:
            self.rows = self.rows.filter(~answer if term.negated else answer)

    @property
    def rows_left(self) -> Rows:
        """What is left."""
        return self.rows if self.keys is None else self.rows.filter(among(self.keys))

    def _by_keys(self, keys: set[int], *, negated: bool) -> None:
        if not negated:
            self.keys = keys if self.keys is None else self.keys & keys
        elif keys:
            self.rows = self.rows.exclude(among(keys))


def _answer(term: Term, tail: Tail) -> Answer:
    """Return the sessions of a term, without its negation."""
    most = MANY if term.negated else FEW
    if isinstance(term, Word):
        return with_word(term, tail)
    if isinstance(term, StateTerm):
        return stated.with_state(term, tail, most)
    if term.name == "key":
        return stated.with_state(stated.written(term.value), tail, most)
    if term.name in traits.NAMES:
        return traits.with_trait(term, tail, most)
    if term.name in ids.COLUMNS:
        return ids.with_id(term, tail)
    return with_column(term, most)
