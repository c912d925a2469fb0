"""Search within a session on its page: query, hits, completions."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from sessions_app.forms.query import CompletionQuery
from sessions_app.forms.session_page import SessionPageQuery
from sessions_app.lookup import find_session
from sessions_app.models import AgentSession, Event
from sessions_app.search.execution import EVENT_FIELDS
from sessions_app.search.query import Query, QueryError, complete, parse
from sessions_app.timeline import session_search
from sessions_app.timeline.event_window import EventWindow
from sessions_app.timeline.session_search import (
    NOT_COUNTED,
    CountProgress,
    HitsRequest,
    RequestedPart,
    SessionHits,
)


@require_safe
def completions(request: HttpRequest, pk: int) -> HttpResponse:
    """Return completions at the caret, limited to terms about events.

    Raises:
        SessionMissing: no such session.
    """
    session = find_session(pk)
    text, caret = CompletionQuery(request.GET).text_and_caret()
    matches = complete(text, caret, session_search.vocabulary(session), EVENT_FIELDS)
    return render(request, "devui/sessions/list/completions.html", {"found": matches})


def hit_window(
    session: AgentSession, parameters: SessionPageQuery, selected: Event | None
) -> EventWindow | None:
    """Return the requested window of hits if only hits are shown, else None."""
    query, _ = _parse(parameters.q)
    if query.is_empty or not parameters.only:
        return None
    if parameters.before is not None:
        return session_search.before(session, query, parameters.before)
    if parameters.after is not None:
        return session_search.after(session, query, parameters.after)
    place = selected.seq if selected and parameters.around is None else parameters.around
    if place is None:
        return session_search.newest(session, query)
    return session_search.around(session, query, place)


def hits_in(session: AgentSession, text: str, window: EventWindow) -> set[int]:
    """Return the seqs of the hits of a search among a window's events."""
    query, _ = _parse(text)
    if query.is_empty or not window.events:
        return set()
    seqs = {event.seq for event in window.events}
    if isinstance(window, session_search.HitWindow):
        return seqs
    return session_search.matching_seqs(session, query, seqs)


@dataclass(frozen=True, slots=True)
class SearchBar:
    """The search bar above the timeline, without hits."""

    chips: list[tuple[str, list[session_search.Chip]]]
    hits_only: bool


@dataclass(frozen=True, slots=True)
class SearchResults:
    """Hits of a search, or the problem of its query.

    Attributes:
        query_text: the query; before_problem, problem_text, after_problem: its parts.
        hits: None without a valid query.
        continue_url: continues the search from where it stopped.
    """

    query_text: str
    hits_only: bool
    problem: QueryError | None = None
    before_problem: str = ""
    problem_text: str = ""
    after_problem: str = ""
    hits: SessionHits | None = None
    continue_url: str = ""
    previous_url: str = ""
    next_url: str = ""


def read_results(
    session: AgentSession, parameters: SessionPageQuery, selected: Event | None
) -> SearchResults:
    """Search a session; return the hits, or the problem of the query."""
    text, only = parameters.q, parameters.only
    query, problem = _parse(text)
    if problem is not None:
        start, end = problem.start, problem.end
        return SearchResults(text, only, problem, text[:start], text[start:end] or " ", text[end:])
    if query.is_empty:
        return SearchResults(text, only)
    search = HitsRequest(
        selected=selected.seq if selected else 0,
        at=parameters.at or 0,
        stretch=(parameters.first or 0, parameters.last or 0),
        counted=CountProgress(parameters.counted or 0, parameters.count or 0),
        looked=(parameters.down or 0, parameters.up or 0),
        part=RequestedPart(parameters.part) if parameters.part else None,
    )
    hits = session_search.find_hits(session, query, search)
    counted = hits.counted or NOT_COUNTED
    progress = {
        "event": selected.event_id if selected else "",
        "down": hits.earlier.place,
        "up": hits.later.place,
        "counted": counted.to,
        "count": counted.hits,
    }
    progress_parameters = {name: value for name, value in progress.items() if value}
    continue_url = f"?{urlencode(parameters.search | progress_parameters)}"
    previous_url, next_url = (
        f"?{urlencode(parameters.search | {'seq': seq})}" if seq else continue_url
        for seq in (hits.previous, hits.next)
    )
    return SearchResults(
        text, only, hits=hits, continue_url=continue_url, previous_url=previous_url, next_url=next_url
    )


def _parse(text: str) -> tuple[Query, QueryError | None]:
    """Return the parsed query, or an empty one and its problem."""
    try:
        return parse(text), None
    except QueryError as problem:
        return Query(), problem
