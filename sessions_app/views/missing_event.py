"""Page for links to an event that does not exist; it offers the nearest one."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from sessions_app.errors import EventMissing
from sessions_app.models import AgentSession

MISSING = "devui/sessions/not_found.html"


def render_missing_event(
    request: HttpRequest, session: AgentSession, event: object, offer: str, url: str
) -> HttpResponse:
    """Render a 404 page: the session has no event of this number or id.

    Args:
        request: the request.
        session: the session.
        wanted: what the link names.
        offer: label of the link to the nearest event; empty: the page links only to the session.
        url: address of that link.
    """
    context = {
        "message": f"This session has no event {event}.",
        "hint": f"The session has {session.last_seq:,} events. The link may point to another session or be incomplete.",
        "code": EventMissing.code,
        "session": session,
        "offer": offer,
        "offer_url": url,
    }
    return render(request, MISSING, context, status=404)
