"""The event that a session is found by, and what of it matches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Max

from sessions_app import scopes
from sessions_app.events import event_text
from sessions_app.models import AgentSession, Event, Scope, StateChange
from sessions_app.search import event_index
from sessions_app.search.execution import id_terms, trait_terms
from sessions_app.search.execution.unindexed_scan import UnindexedTail
from sessions_app.search.query import Field, Query, StateTerm, When
from sessions_app.search.snippets import SnippetPart, make_snippet
from sessions_app.search.state_conditions import value_condition
from sessions_app.store import tokens

LARGE_EVENT = 200_000
"""Characters of an event from which on its hit is shown out of its summary."""


@dataclass(frozen=True, slots=True)
class Hit:
    """The newest event that matches, and what of it does."""

    seq: int
    kind: str
    author: str
    snippet: list[SnippetPart]


def find_hits(wanted: Query, sessions: Sequence[AgentSession], tail: UnindexedTail) -> dict[int, Hit]:
    """Return the hit of each session that has one. At most four queries, and those of the tail."""
    places = _hit_seqs(wanted, [session.pk for session in sessions], tail)
    if not places:
        return {}
    words = [word.text for word in wanted.words if not word.negated]
    words += [
        term.value for term in wanted.fields if term.name in trait_terms.TRAIT_NAMES and not term.negated
    ]
    return {
        event.session_id: Hit(event.seq, event.kind, event.author, make_snippet(_hit_text(event), words))
        for event in _events_at(places)
    }


def _events_at(places: Mapping[int, int]) -> Iterable[Event]:
    """Return the events of sessions at these seqs, one of each: of a list of pairs every database seeks them."""
    pairs = ", ".join(["(%s, %s)"] * len(places))
    given = [number for place in places.items() for number in place]
    return Event.objects.raw(_EVENTS_AT.format(pairs=pairs), given)


_EVENTS_AT = """
WITH place(session_id, seq) AS (VALUES {pairs})
SELECT e.id, e.session_id, e.seq, e.kind, e.author, e.summary, e.data
FROM place CROSS JOIN sessions_app_event e WHERE e.session_id = place.session_id AND e.seq = place.seq
"""


def _hit_seqs(wanted: Query, pks: list[int], tail: UnindexedTail) -> dict[int, int]:
    """Return the seq of each session's hit: of the words, else of an id, a trait, or a value that was written."""
    phrases = [
        found for word in wanted.words if not word.negated and (found := tokens.parse_phrase(word.text))
    ]
    if phrases:
        return _word_hits(phrases, pks, tail)
    fields = [term for term in wanted.fields if not term.negated]
    if called := [term for term in fields if term.name in id_terms.COLUMNS]:
        return _id_hits(called[-1], pks)
    if given := [term for term in fields if term.name in trait_terms.TRAIT_NAMES]:
        return _trait_hits(given[-1], pks, tail)
    written = [term for term in wanted.states if _is_own_value(term)]
    return _value_hits(written[-1], pks) if written else {}


def _word_hits(phrases: list[tokens.Phrase], pks: list[int], tail: UnindexedTail) -> dict[int, int]:
    """Prefer an event that holds all words to one that holds any, and then a newer one."""
    shown = set(pks)
    all_of_tail: dict[int, int] = {}
    any_of_tail: dict[int, int] = {}
    for event in reversed(tail.events):
        held = [tail.holds(event, each) for each in phrases] if event.session_id in shown else []
        if any(held):
            any_of_tail[event.session_id] = event.seq
        if held and all(held):
            all_of_tail[event.session_id] = event.seq
    some = event_index.newest_seqs(pks, phrases, every=False) | any_of_tail
    every = event_index.newest_seqs(pks, phrases, every=True) if len(phrases) > 1 else {}
    return some | every | all_of_tail


def _id_hits(term: Field, pks: list[int]) -> dict[int, int]:
    """Return the newest events that are called so: a seek for each session."""
    rows = Event.objects.filter(**{id_terms.COLUMNS[term.name]: term.value}, session__in=pks).order_by()
    return dict(rows.values_list("session").annotate(Max("seq")))


def _trait_hits(term: Field, pks: list[int], tail: UnindexedTail) -> dict[int, int]:
    rows, matches = trait_terms.trait_lookup(term)
    places = dict(rows.filter(session__in=pks).order_by().values_list("session").annotate(Max("seq")))
    shown = set(pks)
    found = [event for event in tail.with_trait(matches) if event.session_id in shown]
    return places | {event.session_id: event.seq for event in reversed(found)}


def _is_own_value(term: StateTerm) -> bool:
    return term.scope is Scope.SESSION and term.when in (When.NOW, When.EVER) and not term.negated


def _value_hits(term: StateTerm, pks: list[int]) -> dict[int, int]:
    """Return the newest events that wrote a value as a term about a session's own state says."""
    rows = StateChange.objects.filter(
        scope=Scope.SESSION, owner_id__in=pks, key_id=scopes.key_id(term.key), removed=False, seq__gt=0
    )
    found = rows.filter(value_condition("value", term)).order_by()
    return dict(found.values_list("owner_id").annotate(Max("seq")))


def _hit_text(event: Event) -> str:
    """Return the text that a hit is shown out of."""
    if len(event.data) <= LARGE_EVENT:
        return event_text.text_of_data(event.data)
    return event_text.text_of_summary(event.summary)
