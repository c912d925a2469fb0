"""Events of nested runs, page by page, inside the session page."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from sessions_app.forms.query import QueryForm
from sessions_app.lookup import find_session
from sessions_app.store.errors import NotFound
from sessions_app.store.models import NestedRun
from sessions_app.timeline.nested_events import read_nested_events

EVENTS = "devui/sessions/timeline/nested_events.html"


class NestedEventsQuery(QueryForm):
    """Selects the events after a number."""

    after = forms.IntegerField(required=False, min_value=0)


def events(request: HttpRequest, pk: int) -> HttpResponse:
    """Show a page of the events of a nested run inside the page of the session that called the agent.

    Raises:
        SessionMissing: no such session.
        NotFound: the session is not that of a nested run.
    """
    session = find_session(pk)
    run = NestedRun.objects.filter(child=session).first()
    if run is None:
        raise NotFound(
            f"Session {session.session_id!r} is not nested.",
            hint="Its own page shows its events.",
        )
    run.child = session
    after = NestedEventsQuery(request.GET).read()["after"] or 0
    return render(request, EVENTS, {"nested": read_nested_events(run, after), "session": session})
