"""JSON of one event, whole or in pieces, and the comparison of two events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from sessions_app.errors import EventMissing
from sessions_app.forms.query import QueryForm
from sessions_app.forms.state import JsonPieceQuery
from sessions_app.http import json_text
from sessions_app.lookup import find_session, load_event_body
from sessions_app.models import AgentSession
from sessions_app.presentation import highlighting, json_tree
from sessions_app.timeline import event_comparison
from sessions_app.views.missing_event import render_missing_event

FIND_LENGTH = 500
"""Maximum length of the search text, in characters."""


class EventPieceQuery(JsonPieceQuery):
    """Selects a piece of JSON: `pointer` below `base`, as a `tree` in which matches of `find` are marked.

    The form `text` returns the whole value for copying, `stretch` the next part of a long text.
    """

    base = forms.CharField(required=False, strip=False)
    until = forms.IntegerField(required=False, min_value=0)
    find = forms.CharField(required=False, strip=False, max_length=FIND_LENGTH)
    form = forms.ChoiceField(required=False, choices=[(name, name) for name in ("tree", "text", "stretch")])


@require_safe
def event_json(request: HttpRequest, pk: int, seq: int) -> HttpResponse:
    """Return an event's JSON as stored or, with a pointer, a piece of it as a tree or as text.

    Raises:
        SessionMissing: no such session.
        EventMissing: no such event.
        NotFound: there is nothing at the pointer.
    """
    return json_response(request, load_event_body(pk, seq))


def json_response(request: HttpRequest, data: str) -> HttpResponse:
    """Return JSON or, with a pointer, a piece of it as a tree or as text.

    Raises:
        NotFound: there is nothing at the pointer.
    """
    if "pointer" not in request.GET:
        return json_text(data)
    query = EventPieceQuery(request.GET).read()
    value = json_tree.resolve_pointer(json.loads(data), query["base"])
    if query["form"] == "text":
        return HttpResponse(
            _text_to_copy(json_tree.resolve_pointer(value, query["pointer"])), content_type="text/plain"
        )
    url, offset = _tree_url(request), query["offset"] or 0
    if query["form"] == "stretch":
        return HttpResponse(json_tree.render_text_chunk(value, query["pointer"], offset=offset, url=url))
    piece = json_tree.render_piece(
        value,
        query["pointer"],
        offset=offset,
        until=query["until"],
        url=url,
        pattern=highlighting.compile_pattern(query["find"]) if query["find"] else None,
    )
    return HttpResponse(piece)


class EventCompareQuery(QueryForm):
    """Sequence numbers of the events to compare. `left` defaults to the previous event of the same kind."""

    left = forms.IntegerField(required=False, min_value=1)
    right = forms.IntegerField(required=False, min_value=1)


@require_safe
def compare(request: HttpRequest, pk: int) -> HttpResponse:
    """Show two events of a session side by side; redirect to a complete address when one is not given.

    Raises:
        SessionMissing: no such session.
        EventMissing: there is no event to compare with.
        BadInput: both are the same event.
    """
    session = find_session(pk)
    query = EventCompareQuery(request.GET).read()
    left, right = query["left"], query["right"]
    if (missing_seq := max(left or 0, right or 0)) > session.last_seq > 1:
        return _offer_nearest_events(request, session, missing_seq, {"left": left, "right": right})
    if left is None or right is None:
        return _redirect_to_pair(session, left, right)
    compared = event_comparison.compare_events(session, left, right)
    context = {"session": session, "name": session.name, "compared": compared}
    return render(request, "devui/sessions/inspector/compare.html", context)


def _offer_nearest_events(
    request: HttpRequest, session: AgentSession, missing_seq: int, sides: Mapping[str, int | None]
) -> HttpResponse:
    """Show that an event does not exist, with a link that compares the nearest existing events."""
    near = {side: min(seq, session.last_seq) for side, seq in sides.items() if seq is not None}
    if len(set(near.values())) < len(near):
        near = {"right": session.last_seq}
    offer = f"Compare {' and '.join(f'event {seq}' for seq in near.values())}"
    return render_missing_event(request, session, missing_seq, offer, f"?{urlencode(near)}")


def _redirect_to_pair(session: AgentSession, left: int | None, right: int | None) -> HttpResponse:
    right = right or session.last_seq
    left = left or event_comparison.find_similar_before(session, right)
    if not left or left == right:
        raise EventMissing(
            f"There is no event to compare event {right} with.",
            hint="Name two events of the session: ?left=1&right=2.",
        )
    address = reverse("event-compare", kwargs={"pk": session.pk})
    return redirect(f"{address}?left={left}&right={right}")


def _text_to_copy(value: Any) -> str:
    """Return a string as it is, any other value as indented JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _tree_url(request: HttpRequest) -> str:
    """Return the base address of further pieces of the same tree."""
    query = QueryDict(mutable=True)
    for name in ("base", "find", "form"):
        if request.GET.get(name):
            query[name] = request.GET[name]
    return f"{request.path}?{query.urlencode()}" if query else request.path
