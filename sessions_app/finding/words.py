"""Free words and phrases: in events, in a title, or at the start of an id."""

from __future__ import annotations

from django.db.models import F, Q

from sessions_app import event_index, search
from sessions_app.event_index import Holds
from sessions_app.finding.answers import ENTRIES, FEW, MANY, Answer, is_common
from sessions_app.finding.tail import Tail
from sessions_app.models import AgentSession
from sessions_app.query import Word


def with_word(term: Word, tail: Tail, *, is_scattered: bool = False) -> Answer:
    """Return the sessions of a word or phrase, without the term's negation.

    Testing a session for a word takes as long as twenty other tests: that is done only where a list soon finds a page.

    Args:
        term: the word.
        tail: what no index has yet.
        is_scattered: other terms ask for sessions that may be far between, and too many to test a word on each.
    """
    text = term.text
    named = Q(session_id__startswith=text) | ~Q(title="") & Q(title__icontains=text)
    wanted = search.phrase(text)
    if wanted is None:
        return named
    holds = Q(Holds(F("pk"), wanted))
    found = event_index.sessions(wanted, ENTRIES * FEW)
    if not found.is_all and (is_scattered or not is_common(~holds if term.negated else holds)):
        found = event_index.sessions(wanted, ENTRIES * MANY)
    pks = {event.session_id for event in tail.with_words(wanted)}
    if found.is_all:
        called = AgentSession.objects.filter(named)
        return found.pks | pks | set(called.values_list("pk", flat=True)[:FEW])
    return holds | Q(pk__in=pks) | named
