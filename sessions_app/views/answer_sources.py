"""Page "Why this answer": what the model was given for an answer, and where that came from."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from sessions_app.lookup import find_event, find_session
from sessions_app.traces.answer_sources import find_answer_sources

PAGE = "devui/traces/answer_sources.html"


def show(request: HttpRequest, pk: int, seq: int) -> HttpResponse:
    """Show the instruction, state keys, tool results and history behind an answer.

    Raises:
        SessionMissing: no such session.
        EventMissing: no such event.
    """
    session = find_session(pk)
    event = find_event(session, seq=seq)
    context = {
        "session": session,
        "name": session.name,
        "event": event,
        "sources": find_answer_sources(session, event),
    }
    return render(request, PAGE, context)
