"""The search within a session, as the session's page has it: what was asked, what it finds, what can be asked."""

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
from sessions_app.search.query import Query, QueryProblem, complete, parse
from sessions_app.timeline import session_search
from sessions_app.timeline.event_window import Window
from sessions_app.timeline.session_search import NOT_YET, Asked, AskedPart, Counted, Found

Context = dict[str, Any]


class SessionSearchQuery(QueryForm):
    """What is searched for, whether only that is shown, and from where it is looked at.

    `at` is the seq of the first event on the screen, `first` and `last` those between which hits are marked. What an
    answer before has looked at is not looked at again: it counted `count` hits up to `counted`, and looked as far as
    `down` and `up` for those before and after the open event; `part` is what alone is looked for now.
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
    part = forms.ChoiceField(required=False, choices=[(part, part) for part in AskedPart])


@require_safe
def completions(request: HttpRequest, pk: int) -> HttpResponse:
    """Answer what may be written at the caret, of terms about events.

    Raises:
        SessionMissing: no such session.
    """
    session = find_session(pk)
    text, caret = CompletionQuery(request.GET).asked()
    found = complete(text, caret, session_search.vocabulary(session), EVENT_FIELDS)
    return render(request, "devui/sessions/list/completions.html", {"found": found})


def hit_window(session: AgentSession, asked: Context) -> Window | None:
    """Return the window that is asked for when only hits are shown, else None."""
    query, _ = _parse(asked["q"])
    selected: Event | None = asked["selected"]
    if query.is_empty or not asked["only"]:
        return None
    if asked["before"] is not None:
        return session_search.before(session, query, asked["before"])
    if asked["after"] is not None:
        return session_search.after(session, query, asked["after"])
    place = selected.seq if selected and asked["around"] is None else asked["around"]
    return (
        session_search.newest(session, query)
        if place is None
        else session_search.around(session, query, place)
    )


def hit_marks(session: AgentSession, asked: Context, shown: Window) -> Context:
    """Return which events of a window are hits, and what of the address links within the page keep."""
    query, _ = _parse(asked["q"])
    kept = {"q": asked["q"], **({"only": "1"} if asked["only"] else {})} if asked["q"] else {}
    context: Context = {"kept": f"&{urlencode(kept)}" if kept else "", "hit_seqs": ()}
    if query.is_empty or not shown.events:
        return context
    seqs = {event.seq for event in shown.events}
    if isinstance(shown, session_search.HitWindow):
        return {**context, "hit_seqs": seqs}
    return {**context, "hit_seqs": session_search.marked(session, query, seqs)}


def search_bar(session: AgentSession, asked: Context) -> Context:
    """Return what stands in the bar above the timeline, whatever was found."""
    return {"chips": session_search.chips(session, asked["q"]), "hits_only": asked["only"]}


def results(session: AgentSession, asked: Context) -> Context:
    """Return what the search finds, or where its query is wrong and what was probably meant."""
    text: str = asked["q"]
    query, problem = _parse(text)
    context: Context = {"asked": text, "hits_only": asked["only"], "found": None, "problem": problem}
    if problem is not None:
        start, end = problem.start, problem.end
        return {**context, "before": text[:start], "wrong": text[start:end] or " ", "after": text[end:]}
    if query.is_empty:
        return context
    selected: Event | None = asked["selected"]
    looking = Asked(
        selected=selected.seq if selected else 0,
        at=asked["at"] or 0,
        stretch=(asked["first"] or 0, asked["last"] or 0),
        counted=Counted(asked["counted"] or 0, asked["count"] or 0),
        looked=(asked["down"] or 0, asked["up"] or 0),
        part=AskedPart(asked["part"]) if asked["part"] else None,
    )
    what = session_search.found(session, query, looking)
    further = _further_url(asked, what)
    return {
        **context,
        "found": what,
        "further": further,
        "previous_url": _hit_url(asked, what.previous) or further,
        "next_url": _hit_url(asked, what.next) or further,
    }


def _hit_url(asked: Context, seq: int) -> str:
    """Return the address of a hit; empty when none is known."""
    query = {"q": asked["q"], **({"only": "1"} if asked["only"] else {}), "seq": seq}
    return f"?{urlencode(query)}" if seq else ""


def _further_url(asked: Context, what: Found) -> str:
    """Return the address at which the search goes on from where it ended."""
    selected: Event | None = asked["selected"]
    counted = what.counted or NOT_YET
    places = {
        "down": what.earlier.place,
        "up": what.later.place,
        "counted": counted.to,
        "count": counted.hits,
    }
    query = {
        "q": asked["q"],
        "only": "1" if asked["only"] else "",
        "event": selected.event_id if selected else "",
    }
    return f"?{urlencode({name: value for name, value in (query | places).items() if value})}"


def _parse(text: str) -> tuple[Query, QueryProblem | None]:
    """Return the query, or an empty one and what is wrong with it."""
    try:
        return parse(text), None
    except QueryProblem as problem:
        return Query(), problem
