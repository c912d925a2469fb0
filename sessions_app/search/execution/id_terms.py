"""Terms about events by what they are called: their own id, or that of their invocation."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q

from sessions_app.models import Event
from sessions_app.search import event_index
from sessions_app.search.execution.session_sets import ENTRIES_PER_SESSION, FEW, ConditionSet, SessionSet
from sessions_app.search.execution.unindexed_scan import UnindexedTail
from sessions_app.search.query import Field

COLUMNS = {"event": "event_id", "invocation": "invocation_id"}
"""Names of these terms, and where events have the id."""


def find_by_id(term: Field, tail: UnindexedTail) -> SessionSet:
    """Return the sessions with an event that is called so."""
    column = COLUMNS[term.name]
    found = event_index.find_sessions(event_index.id_phrase(term.name, term.value), ENTRIES_PER_SESSION * FEW)
    if not found.is_all:
        return ConditionSet(Q(Exists(Event.objects.filter(**{column: term.value}, session=OuterRef("pk")))))
    return found.pks | {event.session_id for event in tail.events if getattr(event, column) == term.value}
