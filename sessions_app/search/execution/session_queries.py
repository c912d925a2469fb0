"""Search over all sessions: indexed conditions first, then tests per session; the hit that is shown for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from django.db.models import Max, Q, QuerySet

from sessions_app.presentation.visible_text import strip_terminal_codes
from sessions_app.search import nested_content
from sessions_app.search.execution import field_terms, state_terms
from sessions_app.search.execution.field_terms import find_by_column, find_by_word, has_index
from sessions_app.search.execution.scans import UnindexedTail
from sessions_app.search.execution.session_sets import SessionSet, membership_condition
from sessions_app.search.query.terms import NOT_JUDGED, Field, Query, StateTerm, Term, When, Word
from sessions_app.search.snippets import SnippetPart, has_match, make_snippet
from sessions_app.search.state_conditions import value_condition
from sessions_app.store import scopes
from sessions_app.store.database import tokens
from sessions_app.store.events import event_text
from sessions_app.store.events.kinds import EventKind
from sessions_app.store.index import event_index
from sessions_app.store.models import AgentSession, Event, Scope, StateChange

LARGE_EVENT = 200_000
"""Length in characters from which an event's hit is taken from its summary."""


@dataclass(frozen=True, slots=True)
class Hit:
    """The newest matching event of a session."""

    seq: int
    kind: str
    author: str
    snippet: list[SnippetPart]


def find_hits(query: Query, sessions: Sequence[AgentSession], tail: UnindexedTail) -> dict[int, Hit]:
    """Return the hit of each session that has one.

    At most four queries, those of the unindexed tail, and two for each hit inside a nested run.
    """
    pks = [session.pk for session in sessions]
    log_hits = _log_hits(query, pks)
    seqs = {pk: hit.seq for pk, hit in log_hits.items()} or _hit_seqs(query, pks, tail)
    if not seqs:
        return {}
    words = [word.text for word in query.words if not word.negated]
    words += [term.value for term in query.fields if term.name in _SHOWN_TERMS and not term.negated]
    return {
        event.session_id: Hit(
            event.seq,
            event.kind,
            event.author,
            make_snippet(
                strip_terminal_codes(hit.message)
                if (hit := log_hits.get(event.session_id))
                else _hit_text(event, words),
                words,
            ),
        )
        for event in _events_at(seqs)
    }


_SHOWN_TERMS = field_terms.TRAIT_NAMES | {"log"}
"""Terms whose value may be in the text of a hit."""


def _log_hits(query: Query, pks: list[int]) -> dict[int, field_terms.LogHit]:
    """Return the log records that a query names, unless it has another term that names an event."""
    if any(not word.negated for word in query.words):
        return {}
    fields = [term for term in query.fields if not term.negated]
    if any(term.name in field_terms.ID_COLUMNS or term.name in field_terms.TRAIT_NAMES for term in fields):
        return {}
    log_fields = [term for term in fields if term.name in field_terms.LOG_NAMES]
    return field_terms.newest_hits(log_fields[-1], pks) if log_fields else {}


def _events_at(seqs: Mapping[int, int]) -> Iterable[Event]:
    """Return one event of each session, at these seqs. A join with a list of pairs makes every database seek."""
    pairs = ", ".join(["(%s, %s)"] * len(seqs))
    params = [number for seq in seqs.items() for number in seq]
    return Event.objects.raw(_EVENTS_AT.format(pairs=pairs), params)


_EVENTS_AT = """
WITH place(session_id, seq) AS (VALUES {pairs})
SELECT e.id, e.session_id, e.seq, e.kind, e.author, e.summary, e.data
FROM place CROSS JOIN sessions_app_event e WHERE e.session_id = place.session_id AND e.seq = place.seq
"""


def _hit_seqs(query: Query, pks: list[int], tail: UnindexedTail) -> dict[int, int]:
    """Return the seq of each session's hit: by its words, else an id, a judgement, a trait, or a value."""
    phrases = [phrase for word in query.words if not word.negated and (phrase := word.phrase)]
    if phrases:
        return _word_hits(phrases, pks, tail)
    fields = [term for term in query.fields if not term.negated]
    if id_fields := [term for term in fields if term.name in field_terms.ID_COLUMNS]:
        return _id_hits(id_fields[-1], pks)
    if judged_fields := [term for term in fields if term.name == "judged" and term.value != NOT_JUDGED]:
        return _judged_hits(judged_fields[-1], pks)
    if trait_fields := [term for term in fields if term.name in field_terms.TRAIT_NAMES]:
        return _trait_hits(trait_fields[-1], pks, tail)
    value_terms = [
        term
        for term in query.states
        if term.scope is Scope.SESSION and term.when in (When.NOW, When.EVER) and not term.negated
    ]
    return _value_hits(value_terms[-1], pks) if value_terms else {}


def _word_hits(phrases: list[tokens.Phrase], pks: list[int], tail: UnindexedTail) -> dict[int, int]:
    """Prefer events that contain all words to those that contain any, then newer ones."""
    page_pks = set(pks)
    all_of_tail: dict[int, int] = {}
    any_of_tail: dict[int, int] = {}
    for event in reversed(tail.events):
        matches = [tail.holds(event, phrase) for phrase in phrases] if event.session_id in page_pks else []
        if any(matches):
            any_of_tail[event.session_id] = event.seq
        if matches and all(matches):
            all_of_tail[event.session_id] = event.seq
    with_any_word = event_index.newest_seqs(pks, phrases, every=False) | any_of_tail
    with_all_words = event_index.newest_seqs(pks, phrases, every=True) if len(phrases) > 1 else {}
    return with_any_word | with_all_words | all_of_tail


def _id_hits(term: Field, pks: list[int]) -> dict[int, int]:
    """Return the newest events with an id: one seek for each session."""
    rows = Event.objects.filter(**{field_terms.ID_COLUMNS[term.name]: term.value}, session__in=pks).order_by()
    return dict(rows.values_list("session").annotate(Max("seq")))


def _trait_hits(term: Field, pks: list[int], tail: UnindexedTail) -> dict[int, int]:
    rows, matches = field_terms.trait_lookup(term)
    seqs = dict(rows.filter(session__in=pks).order_by().values_list("session").annotate(Max("seq")))
    page_pks = set(pks)
    events = [event for event in tail.events_with_trait(matches) if event.session_id in page_pks]
    return seqs | {event.session_id: event.seq for event in reversed(events)}


def _judged_hits(term: Field, pks: list[int]) -> dict[int, int]:
    """Return the last events that are judged so."""
    rows = field_terms.select_judgements(term.value).filter(session__in=pks).order_by()
    return dict(rows.values_list("session").annotate(Max("seq")))


def _value_hits(term: StateTerm, pks: list[int]) -> dict[int, int]:
    """Return the newest events that wrote a matching value to the session's own state."""
    rows = StateChange.objects.filter(
        scope=Scope.SESSION, owner_id__in=pks, key_id=scopes.key_id(term.key), removed=False, seq__gt=0
    )
    matching = rows.filter(value_condition(term)).order_by()
    return dict(matching.values_list("owner_id").annotate(Max("seq")))


def _hit_text(event: Event, words: Sequence[str]) -> str:
    """Return the text for the snippet: that of the event, or of the nested run with the match."""
    is_large = len(event.data) > LARGE_EVENT
    text = event_text.summary_text(event.summary) if is_large else event_text.data_text(event.data)
    if has_match(text, words):
        return text
    nested = nested_content.read_nested_contents(event.session_id, [event]).get(event.seq)
    return next(
        (nested_text for nested_text in (nested.texts if nested else ()) if has_match(nested_text, words)),
        text,
    )


Rows = QuerySet[AgentSession]


class SearchPlan(NamedTuple):
    """The conditions that find the sessions of a query.

    Attributes:
        indexed: conditions that indexes answer.
        tests: conditions tested on each session that these find; matches may be rare. Empty: `indexed` is sufficient.
    """

    indexed: list[Q]
    tests: list[Q]


class Search:
    """A query over sessions. Unindexed events are read once for all its terms."""

    def __init__(self, query: Query) -> None:
        """Take the query."""
        self.query = query
        self._tail = UnindexedTail()

    def filter_rows(self, rows: Rows) -> Rows:
        """Return the matching sessions of `rows`. Indexes are queried at once, the rest when the result is read."""
        return rows.filter(*self.plan.indexed, *self.plan.tests)

    @cached_property
    def plan(self) -> SearchPlan:
        """The plan of the query. Building it queries the indexes."""
        keys: set[int] | None = None
        indexed: list[Q] = []
        tests: list[Q] = []
        for term in self.query.terms:
            matches = _find_sessions(term, self._tail)
            if isinstance(matches, set) and not term.negated:
                keys = matches if keys is None else keys & matches
            elif has_index(term) and not term.negated:
                indexed.append(membership_condition(matches))
            else:
                tests.append(membership_condition(matches, negated=term.negated))
        if keys is not None:
            return SearchPlan([membership_condition(keys), *indexed, *tests], [])
        return SearchPlan(indexed, tests)

    def hits(self, sessions: Sequence[AgentSession]) -> dict[int, Hit]:
        """Return the hit of each session, where a term is about events."""
        return find_hits(self.query, sessions, self._tail)


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
        return own_errors | membership_condition(field_terms.find_by_trait(term, tail))
    if term.name in field_terms.LOG_NAMES:
        return field_terms.has_record(term)
    if term.name in field_terms.INVOCATION_NAMES:
        return field_terms.find_by_invocation(term)
    if term.name in field_terms.TRAIT_NAMES:
        return field_terms.find_by_trait(term, tail)
    if term.name in field_terms.ID_COLUMNS:
        return field_terms.find_by_id(term, tail)
    return find_by_column(term)
