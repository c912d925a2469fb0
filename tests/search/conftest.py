"""Sessions to be found, both before and after they are indexed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sessions_app.models import AgentSession, Event
from sessions_app.search import execution, indexing
from sessions_app.search.execution import session_queries, session_sets, state_terms, word_terms
from sessions_app.search.query import parse

Find = Callable[[str], list[str]]

MODES = ("not indexed yet", "indexed", "common", "far between")
"""How the sessions of a term stand in a store; it comes to the same."""

ALL_TOO_MANY = "far between, and too many either way"


@pytest.fixture(params=MODES)
def find(request: pytest.FixtureRequest, db: None, monkeypatch: pytest.MonkeyPatch) -> Find:
    """Return the ids of the sessions of real life that a query asks for, sorted.

    Where there are too many to name, they are tested one by one or listed by an index.
    """
    if request.param in MODES[:2]:
        return finder(is_indexed=request.param == "indexed")
    for module in (session_sets, state_terms, word_terms):
        monkeypatch.setattr(module, "FEW", 0)
    if request.param == ALL_TOO_MANY:
        for shared in (session_sets, state_terms):
            monkeypatch.setattr(shared, "FEW_SHARED", 0)
    monkeypatch.setattr(session_queries, "is_common", lambda *_, **__: request.param == "common")
    return finder(is_indexed=True)


def finder(*, is_indexed: bool) -> Find:
    """Return what finds the ids of sessions of real life."""

    def found(text: str) -> list[str]:
        if is_indexed:
            indexing.index_all()
        rows = execution.Search(parse(text)).filter_rows(AgentSession.objects.filter(realm=""))
        return sorted(rows.values_list("session_id", flat=True))

    return found


def events(session: AgentSession, text: str) -> list[int]:
    """Return the seqs of the events of a session that a query asks for."""
    rows = execution.EventQuery(session, parse(text)).matching_events(1, session.last_seq)
    assert all(isinstance(event, Event) for event in rows[:1])
    return [event.seq for event in rows]
