"""Free words and phrases: in events, in the title, or at the start of an id."""

from __future__ import annotations

from django.db.models import F, Q
from django.db.models.expressions import RawSQL

from sessions_app.models import AgentSession
from sessions_app.search import event_index
from sessions_app.search.event_index import HoldsPhrase
from sessions_app.search.execution.column_terms import column_contains, id_starts_with
from sessions_app.search.execution.session_sets import (
    ENTRIES_PER_SESSION,
    FEW,
    ConditionSet,
    SessionSet,
    Statement,
    in_keys,
    in_subquery,
    is_common,
    sessions_not_in,
)
from sessions_app.search.execution.unindexed_scan import UnindexedTail
from sessions_app.search.query import Word
from sessions_app.store import tokens


def find_by_word(term: Word, tail: UnindexedTail) -> SessionSet:
    """Return the sessions that match a word or phrase, ignoring its negation."""
    is_named = id_starts_with(term.text) | ~Q(title="") & column_contains("title", term.text)
    phrase = tokens.parse_phrase(term.text)
    if phrase is None:
        return ConditionSet(is_named)
    pks = {event.session_id for event in tail.events_with_phrase(phrase)}
    holds = Q(HoldsPhrase(F("pk"), phrase))
    is_everywhere = event_index.is_frequent(phrase) and is_common(holds)
    matches = None if is_everywhere else event_index.find_sessions(phrase, ENTRIES_PER_SESSION * FEW)
    if matches is not None:
        named_pks = set(AgentSession.objects.filter(is_named).values_list("pk", flat=True)[: FEW + 1])
        if len(named_pks) <= FEW:
            return matches | pks | named_pks
    is_other = Q(pk__in=pks) | is_named

    def listed() -> Q | None:
        subquery = event_index.sessions_subquery(phrase)
        return None if subquery is None else in_subquery(RawSQL(*subquery)) | is_other  # noqa: S611 - of our own

    def others() -> Q | None:
        subquery = event_index.sessions_subquery(phrase)
        lacking = None if subquery is None else sessions_not_in(Statement(*subquery))
        return None if lacking is None else in_keys(lacking - pks) & ~is_named

    return ConditionSet(holds | is_other, listed, others)
