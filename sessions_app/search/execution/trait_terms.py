"""Terms about the events of a session: kind, author, tool, error, branch, problem, and ids."""

from __future__ import annotations

from collections.abc import Callable

from django.db.models import Exists, OuterRef, Q, QuerySet

from sessions_app.search.execution.session_sets import FEW, SessionSet, sessions_of_rows
from sessions_app.search.execution.unindexed_scan import UnindexedTail
from sessions_app.search.query.terms import Field
from sessions_app.store.events import event_text
from sessions_app.store.index import event_index
from sessions_app.store.models import Event, SessionTrait

TRAIT_NAMES = frozenset({"kind", "author", "tool", "error", "branch", "problem"})
"""Names of the terms that compare a trait."""

ID_COLUMNS = {"event": "event_id", "invocation": "invocation_id"}
"""Names of the terms that name an id, and the columns of events with it."""


def trait_lookup(term: Field) -> tuple[QuerySet[SessionTrait], Callable[[event_text.Trait], bool]]:
    """Return the rows of a trait, and a predicate for traits of unindexed events. For an error a substring matches."""
    rows = SessionTrait.objects.filter(name=term.name)
    if term.name == SessionTrait.Name.ERROR:
        part = term.value.casefold()
        has_part = rows.filter(value__icontains=term.value)
        return has_part, lambda trait: trait[0] == term.name and part in trait[1].casefold()
    short = event_text.truncate_value(term.value)
    return rows.filter(value=short), lambda trait: trait == (term.name, short)


def find_by_trait(term: Field, tail: UnindexedTail) -> SessionSet:
    """Return the sessions that have a trait."""
    rows, matches = trait_lookup(term)
    tail_pks = {event.session_id for event in tail.events_with_trait(matches)}
    return sessions_of_rows(rows, tail_pks)


def find_by_id(term: Field, tail: UnindexedTail) -> SessionSet:
    """Return the sessions with an event of this id."""
    column = ID_COLUMNS[term.name]
    phrase = event_index.id_phrase(term.name, term.value)
    pks = event_index.find_sessions(phrase, FEW)
    if pks is None:
        return Q(Exists(Event.objects.filter(**{column: term.value}, session=OuterRef("pk"))))
    return pks | {event.session_id for event in tail.events if getattr(event, column) == term.value}
