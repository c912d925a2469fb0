"""One span: its page and its JSON."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from sessions_app.store import scopes
from sessions_app.traces import span_details
from sessions_app.views.event import json_response

SPAN = "devui/traces/span.html"

MAX_COPIED = 200_000
"""Most characters of JSON that the page has for copying; a longer one is to be had at its own address."""


def page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show a span with its attributes, events, links and status.

    Raises:
        NotFound: no such span.
    """
    details = span_details.describe_span(span_details.find_span(pk))
    text = details.json
    context = {
        "details": details,
        "span": details.span,
        "session": details.span.session,
        "copied_json": text if len(text) <= MAX_COPIED else "",
    }
    return render(request, SPAN, context)


def span_json(request: HttpRequest, pk: int) -> HttpResponse:
    """Return a span's JSON; with a pointer, a piece of it.

    Raises:
        NotFound: no such span, or there is nothing at the pointer.
    """
    return json_response(request, scopes.dumps(span_details.span_json(span_details.find_span(pk))))
