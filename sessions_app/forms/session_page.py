"""Query string of the session page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms

from sessions_app.forms.query import MAX_QUERY_CHARACTERS, MultiValueField, QueryForm

TABS = (
    ("parts", "Parts"),
    ("llm", "Sent to model"),
    ("seen", "Would be sent"),
    ("delta", "Delta"),
    ("actions", "Actions"),
    ("details", "Details"),
    ("raw", "Raw"),
    ("trace", "Trace"),
)
"""Tabs of the inspector: name and label."""

SCOPES = ("all", "merged", "session", "user", "app", "temp")

SEARCH_PARTS = ("count", "earlier", "later")


class SessionPageQuery(QueryForm):
    """Query of the session page; absent numbers are None, absent texts empty.

    - `event`, `seq`: id or seq of the selected event.
    - `around`, `before`, `after`: seq that determines the window of the timeline.
    - `tab`: open tab of the inspector; `open`: `all` expands the JSON.
    - `delta`: `all` shows more changes of the event.
    - `scope`, `keys`, `key`, `begin`: of the state board: scope, `all` for more keys, text in names, first key.
    - `diff`: point in time to compare the state with.
    - `watch`: keys that are always shown; `known`, `mark`: seq and mark of the board that the client shows.
    - `find`: text to find in the list of sessions.
    - `q`, `only`: search within the session, and whether only hits are shown.
    - `at`: seq of the first event on screen; hits between `first` and `last` are marked.
    - `counted`, `count`: seq up to which earlier requests have counted `count` hits.
    - `down`, `up`: how far they searched for the hits before and after the selected event.
    - `part`: limits the request to one of these searches.
    """

    event = forms.CharField(required=False, strip=False)
    seq = forms.IntegerField(required=False)
    around = forms.IntegerField(required=False)
    before = forms.IntegerField(required=False, min_value=0)
    after = forms.IntegerField(required=False, min_value=0)
    tab = forms.ChoiceField(required=False, choices=TABS)
    open = forms.ChoiceField(required=False, choices=[("all", "all")])
    delta = forms.ChoiceField(required=False, choices=[("all", "all")])
    scope = forms.ChoiceField(required=False, choices=[(name, name) for name in SCOPES])
    keys = forms.CharField(required=False)
    key = forms.CharField(required=False, max_length=200)
    begin = forms.CharField(required=False, strip=False, max_length=1_000)
    diff = forms.CharField(required=False)
    watch = MultiValueField(required=False)
    known_event = forms.IntegerField(required=False, min_value=1)
    mark = forms.CharField(required=False, max_length=100)
    find = forms.CharField(required=False, max_length=500)
    q = forms.CharField(required=False, max_length=MAX_QUERY_CHARACTERS)
    only = forms.BooleanField(required=False)
    at = forms.IntegerField(required=False, min_value=0)
    first = forms.IntegerField(required=False, min_value=0)
    last = forms.IntegerField(required=False, min_value=0)
    counted = forms.IntegerField(required=False, min_value=0)
    count = forms.IntegerField(required=False, min_value=0)
    down = forms.IntegerField(required=False, min_value=0)
    up = forms.IntegerField(required=False, min_value=0)
    part = forms.ChoiceField(required=False, choices=[(part, part) for part in SEARCH_PARTS])


def search_parameters(query: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters of the search within the session, for links within the page."""
    return {"q": query["q"], **({"only": "1"} if query["only"] else {})} if query["q"] else {}
