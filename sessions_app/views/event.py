"""JSON of one event, whole or in pieces."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict

from sessions_app.forms.state import JsonPieceQuery
from sessions_app.http import json_text
from sessions_app.lookup import load_event_body
from sessions_app.presentation import json_tree


class EventPieceQuery(JsonPieceQuery):
    """Selects a piece of JSON: `pointer` below `base`, as a `tree`.

    The form `text` returns the whole value for copying, `stretch` the next part of a long text.
    """

    base = forms.CharField(required=False, strip=False)
    form = forms.ChoiceField(required=False, choices=[(name, name) for name in ("tree", "text", "stretch")])


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
    return HttpResponse(json_tree.render_piece(value, query["pointer"], offset=offset, url=url))


def _text_to_copy(value: Any) -> str:
    """Return a string as it is, any other value as indented JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _tree_url(request: HttpRequest) -> str:
    """Return the base address of further pieces of the same tree."""
    query = QueryDict(mutable=True)
    for name in ("base", "form"):
        if request.GET.get(name):
            query[name] = request.GET[name]
    return f"{request.path}?{query.urlencode()}" if query else request.path
