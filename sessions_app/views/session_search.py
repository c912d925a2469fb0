"""Search within a session on its page: query, hits, completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from sessions_app.forms.query import CompletionQuery
from sessions_app.forms.session_page import search_parameters
from sessions_app.lookup import find_session
from sessions_app.search.execution.event_queries import EVENT_FIELDS
from sessions_app.search.query.completion import complete
from sessions_app.search.query.parsing import parse
from sessions_app.search.query.scanner import QueryError
from sessions_app.search.query.terms import Query
from sessions_app.store.models import AgentSession, Event
from sessions_app.timeline.event_window import EventWindow
from sessions_app.timeline.session_search import hit_windows, suggestions
from sessions_app.timeline.session_search.hits import (
    NOT_COUNTED,
    CountProgress,
    HitsRequest,
    RequestedPart,
    find_hits,
)


def completions(request: HttpRequest, pk: int) -> HttpResponse:
    """Return completions at the caret, limited to terms about events.

    Raises:
        SessionMissing: no such session.
    """
    session = find_session(pk)
    text, caret = CompletionQuery(request.GET).text_and_caret()
    matches = complete(text, caret, suggestions.vocabulary(session), EVENT_FIELDS)
    return render(request, "devui/sessions/list/completions.html", {"completions": matches})


def hit_window(session: AgentSession, page: Mapping[str, Any], selected: Event | None) -> EventWindow | None:
    """Return the window of hits that a page's query asks for if it shows only hits, else None."""
    query, _ = _parse_search(page["q"])
    if query.is_empty or not page["only"]:
        return None
    if page["before"] is not None:
        return hit_windows.before(session, query, page["before"])
    if page["after"] is not None:
        return hit_windows.after(session, query, page["after"])
    around = selected.seq if selected and page["around"] is None else page["around"]
    if around is None:
        return hit_windows.newest(session, query)
    return hit_windows.around(session, query, around)


def hits_in(session: AgentSession, text: str, window: EventWindow) -> set[int]:
    """Return the seqs of the hits of a search among a window's events."""
    query, _ = _parse_search(text)
    if query.is_empty or not window.events:
        return set()
    seqs = {event.seq for event in window.events}
    if isinstance(window, hit_windows.HitWindow):
        return seqs
    return hit_windows.matching_seqs(session, query, seqs)


def read_results(session: AgentSession, page: Mapping[str, Any], selected: Event | None) -> dict[str, Any]:
    """Search a session; return the template's variables: the hits, or the problem of the query."""
    query, problem = _parse_search(page["q"])
    context: dict[str, Any] = {"query_text": page["q"], "hits_only": page["only"]}
    if problem is not None:
        return {**context, "problem": problem, "query_parts": problem.split(page["q"])}
    if query.is_empty:
        return context
    search = HitsRequest(
        selected=selected.seq if selected else 0,
        at=page["at"] or 0,
        stretch=(page["first"] or 0, page["last"] or 0),
        count_progress=CountProgress(page["counted"] or 0, page["count"] or 0),
        scan_positions=(page["down"] or 0, page["up"] or 0),
        part=RequestedPart(page["part"]) if page["part"] else None,
    )
    hits = find_hits(session, query, search)
    count_progress = hits.count_progress or NOT_COUNTED
    progress = {
        "event": selected.event_id if selected else "",
        "down": hits.earlier.place,
        "up": hits.later.place,
        "counted": count_progress.to,
        "count": count_progress.hits,
    }
    parameters = search_parameters(page)
    continue_url = f"?{urlencode(parameters | {name: value for name, value in progress.items() if value})}"
    previous_url, next_url = (
        f"?{urlencode(parameters | {'seq': seq})}" if seq else continue_url
        for seq in (hits.previous, hits.next)
    )
    urls = {"continue_url": continue_url, "previous_url": previous_url, "next_url": next_url}
    return {**context, "hits": hits, **urls}


def _parse_search(text: str) -> tuple[Query, QueryError | None]:
    """Return the parsed query, or an empty one and its problem."""
    try:
        return parse(text), None
    except QueryError as problem:
        return Query(), problem
