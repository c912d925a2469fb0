"""Terms about events by what they are called: their own id, or that of their invocation."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q

from sessions_app.models import Event
from sessions_app.search import event_index
from sessions_app.search.execution.session_sets import ENTRIES, FEW, Answer, Many
from sessions_app.search.execution.unindexed_scan import Tail
from sessions_app.search.query import Field

COLUMNS = {"event": "event_id", "invocation": "invocation_id"}
"""Names of these terms, and where events have the id."""


def with_id(term: Field, tail: Tail) -> Answer:
    """Return the sessions with an event that is called so."""
    column = COLUMNS[term.name]
    found = event_index.sessions(event_index.named(term.name, term.value), ENTRIES * FEW)
    if not found.is_all:
        return Many(Q(Exists(Event.objects.filter(**{column: term.value}, session=OuterRef("pk")))))
    return found.pks | {event.session_id for event in tail.events if getattr(event, column) == term.value}
