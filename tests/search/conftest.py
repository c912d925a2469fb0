"""Sessions to be found, both before and after they are indexed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sessions_app.search import indexing
from sessions_app.search.execution import (
    event_queries,
    field_terms,
    session_queries,
    session_sets,
    state_terms,
)
from sessions_app.search.query.parsing import parse
from sessions_app.store.models import AgentSession, Event

Find = Callable[[str], list[str]]

MODES = ("not indexed yet", "indexed", "too many to list")
"""The states of a store for a term. The result is the same."""


@pytest.fixture(params=MODES)
def find(request: pytest.FixtureRequest, db: None, monkeypatch: pytest.MonkeyPatch) -> Find:
    """Return a function that returns the sorted ids of the sessions that match a query."""
    if request.param == "too many to list":
        for module in (session_sets, state_terms, field_terms):
            monkeypatch.setattr(module, "FEW", 0)
    return finder(is_indexed=request.param != "not indexed yet")


def finder(*, is_indexed: bool) -> Find:
    """Return what finds the ids of sessions of real life."""

    def find_ids(text: str) -> list[str]:
        if is_indexed:
            indexing.index_all()
        rows = session_queries.Search(parse(text)).filter_rows(AgentSession.objects.filter(realm=""))
        return sorted(rows.values_list("session_id", flat=True))

    return find_ids


def events(session: AgentSession, text: str) -> list[int]:
    """Return the seqs of the events of a session that a query asks for."""
    rows = event_queries.EventQuery(session, parse(text)).matching_events(1, session.last_seq)
    assert all(isinstance(event, Event) for event in rows[:1])
    return [event.seq for event in rows]
