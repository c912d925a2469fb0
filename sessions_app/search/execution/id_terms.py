"""Terms about the id of an event or of its invocation."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q

from sessions_app.models import Event
from sessions_app.search import event_index
from sessions_app.search.execution.session_sets import ENTRIES_PER_SESSION, FEW, ConditionSet, SessionSet
from sessions_app.search.execution.unindexed_scan import UnindexedTail
from sessions_app.search.query import Field

COLUMNS = {"event": "event_id", "invocation": "invocation_id"}
"""Names of these terms, and the columns of events with the id."""


def find_by_id(term: Field, tail: UnindexedTail) -> SessionSet:
    """Return the sessions with an event of this id."""
    column = COLUMNS[term.name]
    matches = event_index.find_sessions(
        event_index.id_phrase(term.name, term.value), ENTRIES_PER_SESSION * FEW
    )
    if matches is None:
        return ConditionSet(Q(Exists(Event.objects.filter(**{column: term.value}, session=OuterRef("pk")))))
    return matches | {event.session_id for event in tail.events if getattr(event, column) == term.value}
