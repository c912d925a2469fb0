"""Free words and phrases: in events, in a title, or at the start of an id."""

from __future__ import annotations

from django.db.models import F, Q
from django.db.models.expressions import RawSQL

from sessions_app.models import AgentSession
from sessions_app.search import event_index
from sessions_app.search.event_index import HoldsPhrase, PhraseSessions
from sessions_app.search.execution.column_terms import column_contains, id_starts_with
from sessions_app.search.execution.session_sets import (
    ENTRIES_PER_SESSION,
    FEW,
    LONGEST_LIST,
    ConditionSet,
    SessionSet,
    Statement,
    in_keys,
    in_subquery,
    is_common,
    negate_list,
    sessions_not_in,
)
from sessions_app.search.execution.unindexed_scan import UnindexedTail
from sessions_app.search.query import Word
from sessions_app.store import tokens


def find_by_word(term: Word, tail: UnindexedTail) -> SessionSet:
    """Return the sessions of a word or phrase, without the term's negation."""
    named = id_starts_with(term.text) | ~Q(title="") & column_contains("title", term.text)
    wanted = tokens.parse_phrase(term.text)
    if wanted is None:
        return ConditionSet(named)
    pks = {event.session_id for event in tail.with_words(wanted)}
    holds = Q(HoldsPhrase(F("pk"), wanted))
    is_everywhere = event_index.is_frequent(wanted) and is_common(holds)
    found = (
        PhraseSessions(set(), is_all=False)
        if is_everywhere
        else event_index.find_sessions(wanted, ENTRIES_PER_SESSION * FEW)
    )
    if found.is_all:
        called = set(AgentSession.objects.filter(named).values_list("pk", flat=True)[: FEW + 1])
        if len(called) <= FEW:
            return found.pks | pks | called
    others = Q(pk__in=pks) | named
    test = holds | others

    def listed(most: int) -> Q | None:
        found = event_index.sessions_subquery(wanted, most)
        return None if found is None else in_subquery(RawSQL(*found)) | others  # noqa: S611 - of our own

    def without(most: int) -> Q | None:
        found = event_index.sessions_subquery(wanted, LONGEST_LIST)
        lacking = None if found is None else sessions_not_in(Statement(*found))
        return negate_list(listed(most)) if lacking is None else in_keys(lacking - pks) & ~named

    return ConditionSet(test, listed, without, is_slow=True, some=frozenset(found.pks))
