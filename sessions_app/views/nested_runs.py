"""Events of nested runs: pages of the session page, and their JSON."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from sessions_app.forms.query import QueryForm
from sessions_app.lookup import find_session
from sessions_app.timeline.nested_events import read_nested_events
from sessions_app.timeline.nested_runs import find_nested_event, find_nested_run
from sessions_app.views.event import json_response

EVENTS = "devui/sessions/timeline/nested_events.html"


class NestedEventsQuery(QueryForm):
    """Selects the events after a number."""

    after = forms.IntegerField(required=False, min_value=0)


@require_safe
def events(request: HttpRequest, pk: int, run: int) -> HttpResponse:
    """Show a page of the events of a nested run inside the session page.

    Raises:
        SessionMissing: no such session.
        NotFound: the session has no such nested run.
    """
    session = find_session(pk)
    after = NestedEventsQuery(request.GET).read()["after"] or 0
    nested = read_nested_events(session, find_nested_run(session, run), after)
    return render(request, EVENTS, {"nested": nested, "session": session})


@require_safe
def event_json(request: HttpRequest, pk: int, run: int, number: int) -> HttpResponse:
    """Return the JSON of an event of a nested run.

    Raises:
        SessionMissing: no such session.
        NotFound: the session has no such nested run, or the run no such event.
    """
    event = find_nested_event(find_nested_run(find_session(pk), run), number)
    return json_response(request, event.data)
