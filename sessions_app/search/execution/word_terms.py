"""Free words and phrases: in events, in a title, or at the start of an id."""

from __future__ import annotations

from django.db.models import F, Q
from django.db.models.expressions import RawSQL

from sessions_app.models import AgentSession
from sessions_app.search import event_index
from sessions_app.search.event_index import Found, Holds
from sessions_app.search.execution.column_terms import contains, id_begins
from sessions_app.search.execution.session_sets import (
    ENTRIES,
    FEW,
    LONG,
    Answer,
    Many,
    Statement,
    among,
    but,
    is_common,
    listed_by,
    unlisted,
)
from sessions_app.search.execution.unindexed_scan import Tail
from sessions_app.search.query import Word
from sessions_app.store import tokens


def with_word(term: Word, tail: Tail) -> Answer:
    """Return the sessions of a word or phrase, without the term's negation."""
    named = id_begins(term.text) | ~Q(title="") & contains("title", term.text)
    wanted = tokens.parse_phrase(term.text)
    if wanted is None:
        return Many(named)
    pks = {event.session_id for event in tail.with_words(wanted)}
    holds = Q(Holds(F("pk"), wanted))
    is_everywhere = event_index.is_frequent(wanted) and is_common(holds)
    found = Found(set(), is_all=False) if is_everywhere else event_index.sessions(wanted, ENTRIES * FEW)
    if found.is_all:
        called = set(AgentSession.objects.filter(named).values_list("pk", flat=True)[: FEW + 1])
        if len(called) <= FEW:
            return found.pks | pks | called
    others = Q(pk__in=pks) | named
    test = holds | others

    def listed(most: int) -> Q | None:
        found = event_index.sessions_list(wanted, most)
        return None if found is None else listed_by(RawSQL(*found)) | others  # noqa: S611 - of our own

    def without(most: int) -> Q | None:
        found = event_index.sessions_list(wanted, LONG)
        lacking = None if found is None else unlisted(Statement(*found))
        return but(listed(most)) if lacking is None else among(lacking - pks) & ~named

    return Many(test, listed, without, is_slow=True, some=frozenset(found.pks))
