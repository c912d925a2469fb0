"""Search within a session on its page: query, hits, completions."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from sessions_app.forms import MAX_QUERY_CHARACTERS, CompletionQuery, QueryForm
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

Context = dict[str, Any]


class SessionSearchQuery(QueryForm):
    """Search text `q`, whether `only` hits are shown, and how far earlier responses have searched.

    `at` is the seq of the first event on screen; hits between `first` and `last` are marked. Earlier responses counted
    `count` hits up to seq `counted`, and searched as far as `down` and `up` for the hits before and after the open
    event. `part` limits this request to one of these searches.
    """

    q = forms.CharField(required=False, max_length=MAX_QUERY_CHARACTERS)
    only = forms.BooleanField(required=False)
    at = forms.IntegerField(required=False, min_value=0)
    first = forms.IntegerField(required=False, min_value=0)
    last = forms.IntegerField(required=False, min_value=0)
    counted = forms.IntegerField(required=False, min_value=0)
    count = forms.IntegerField(required=False, min_value=0)
    down = forms.IntegerField(required=False, min_value=0)
    up = forms.IntegerField(required=False, min_value=0)
    part = forms.ChoiceField(required=False, choices=[(part, part) for part in RequestedPart])


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


def hit_window(session: AgentSession, parameters: Context) -> EventWindow | None:
    """Return the requested window of hits if only hits are shown, else None."""
    query, _ = _parse(parameters["q"])
    selected: Event | None = parameters["selected"]
    if query.is_empty or not parameters["only"]:
        return None
    if parameters["before"] is not None:
        return session_search.before(session, query, parameters["before"])
    if parameters["after"] is not None:
        return session_search.after(session, query, parameters["after"])
    place = selected.seq if selected and parameters["around"] is None else parameters["around"]
    return (
        session_search.newest(session, query)
        if place is None
        else session_search.around(session, query, place)
    )


def hit_marks(session: AgentSession, parameters: Context, window: EventWindow) -> Context:
    """Return the hits among a window's events, and the search parameters that links within the page keep."""
    query, _ = _parse(parameters["q"])
    link_parameters = (
        {"q": parameters["q"], **({"only": "1"} if parameters["only"] else {})} if parameters["q"] else {}
    )
    context: Context = {"kept": f"&{urlencode(link_parameters)}" if link_parameters else "", "hit_seqs": ()}
    if query.is_empty or not window.events:
        return context
    seqs = {event.seq for event in window.events}
    if isinstance(window, session_search.HitWindow):
        return {**context, "hit_seqs": seqs}
    return {**context, "hit_seqs": session_search.matching_seqs(session, query, seqs)}


def search_bar(session: AgentSession, parameters: Context) -> Context:
    """Return the context of the search bar above the timeline, which does not depend on hits."""
    return {"chips": session_search.chips(session, parameters["q"]), "hits_only": parameters["only"]}


def results(session: AgentSession, parameters: Context) -> Context:
    """Return the search results, or the error in the query and a suggestion."""
    text: str = parameters["q"]
    query, problem = _parse(text)
    context: Context = {"asked": text, "hits_only": parameters["only"], "found": None, "problem": problem}
    if problem is not None:
        start, end = problem.start, problem.end
        return {**context, "before": text[:start], "wrong": text[start:end] or " ", "after": text[end:]}
    if query.is_empty:
        return context
    selected: Event | None = parameters["selected"]
    search = HitsRequest(
        selected=selected.seq if selected else 0,
        at=parameters["at"] or 0,
        stretch=(parameters["first"] or 0, parameters["last"] or 0),
        counted=CountProgress(parameters["counted"] or 0, parameters["count"] or 0),
        looked=(parameters["down"] or 0, parameters["up"] or 0),
        part=RequestedPart(parameters["part"]) if parameters["part"] else None,
    )
    matches = session_search.find_hits(session, query, search)
    further = _further_url(parameters, matches)
    return {
        **context,
        "found": matches,
        "further": further,
        "previous_url": _hit_url(parameters, matches.previous) or further,
        "next_url": _hit_url(parameters, matches.next) or further,
    }


def _hit_url(parameters: Context, seq: int) -> str:
    """Return the URL of a hit; empty without one."""
    query = {"q": parameters["q"], **({"only": "1"} if parameters["only"] else {}), "seq": seq}
    return f"?{urlencode(query)}" if seq else ""


def _further_url(parameters: Context, results: SessionHits) -> str:
    """Return the URL that continues the search from where it stopped."""
    selected: Event | None = parameters["selected"]
    counted = results.counted or NOT_COUNTED
    places = {
        "down": results.earlier.place,
        "up": results.later.place,
        "counted": counted.to,
        "count": counted.hits,
    }
    query = {
        "q": parameters["q"],
        "only": "1" if parameters["only"] else "",
        "event": selected.event_id if selected else "",
    }
    return f"?{urlencode({name: value for name, value in (query | places).items() if value})}"


def _parse(text: str) -> tuple[Query, QueryError | None]:
    """Return the parsed query, or an empty one and its problem."""
    try:
        return parse(text), None
    except QueryError as problem:
        return Query(), problem
