"""Terms about the events of a session: kind, author, tool, error, branch."""

from __future__ import annotations

from collections.abc import Callable

from django.db.models import Exists, OuterRef, Q, QuerySet

from sessions_app.events import event_text
from sessions_app.models import SessionTrait
from sessions_app.search.execution.session_sets import (
    MOST_READ,
    ConditionSet,
    SessionSet,
    has_more_rows,
    sessions_of_rows,
)
from sessions_app.search.execution.unindexed_scan import UnindexedTail
from sessions_app.search.query import Field

TRAIT_NAMES = frozenset({"kind", "author", "tool", "error", "branch"})
"""Names of these terms."""


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
    if term.name == SessionTrait.Name.ERROR and has_more_rows(
        SessionTrait.objects.filter(name=term.name), MOST_READ
    ):
        return ConditionSet(Q(Exists(rows.filter(session=OuterRef("pk")))) | Q(pk__in=tail_pks))
    return sessions_of_rows(rows, tail_pks)
