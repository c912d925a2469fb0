"""Free words and phrases: in events, in the title, or at the start of an id."""

from __future__ import annotations

from django.db.models import F, Q

from sessions_app.search.execution.column_terms import column_contains, id_starts_with
from sessions_app.search.execution.session_sets import FEW, SessionSet
from sessions_app.search.execution.unindexed_scan import UnindexedTail
from sessions_app.search.query.terms import Word
from sessions_app.store.database import tokens
from sessions_app.store.index import event_index
from sessions_app.store.index.event_index import HoldsPhrase
from sessions_app.store.models import AgentSession


def find_by_word(term: Word, tail: UnindexedTail) -> SessionSet:
    """Return the sessions that match a word or phrase, ignoring its negation."""
    is_named = id_starts_with(term.text) | ~Q(title="") & column_contains("title", term.text)
    phrase = tokens.parse_phrase(term.text)
    if phrase is None:
        return is_named
    pks = {event.session_id for event in tail.events_with_phrase(phrase)}
    matches = event_index.find_sessions(phrase, FEW)
    if matches is not None:
        named_pks = set(AgentSession.objects.filter(is_named).values_list("pk", flat=True)[: FEW + 1])
        if len(named_pks) <= FEW:
            return matches | pks | named_pks
    return Q(HoldsPhrase(F("pk"), phrase)) | Q(pk__in=pks) | is_named
