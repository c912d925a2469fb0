"""Query string of the session page."""

from __future__ import annotations

from dataclasses import dataclass

from django import forms
from django.http import QueryDict

from sessions_app.forms.query import MAX_QUERY_CHARACTERS, MultiValueField, QueryForm

TABS = (
    ("parts", "Parts"),
    ("delta", "Delta"),
    ("actions", "Actions"),
    ("details", "Details"),
    ("raw", "Raw"),
    ("seen", "Model sees"),
    ("llm", "LLM"),
    ("trace", "Trace"),
)
"""Tabs of the inspector: name and label."""

SCOPES = ("all", "merged", "session", "user", "app", "temp")

SEARCH_PARTS = ("count", "earlier", "later")


@dataclass(frozen=True, slots=True)
class SessionPageQuery:
    """Query of the session page; absent numbers are None, absent texts empty.

    Attributes:
        event, seq: id or seq of the selected event.
        around, before, after: seq that determines the window of the timeline.
        tab: open tab of the inspector; raw, hit, open: text to find in the JSON, its hit, whether all is expanded.
        delta: `all` shows more changes of the event.
        scope, keys, key, begin: of the state board: scope, `all` for more keys, text in names, first key.
        diff: point in time to compare the state with.
        watch: keys that are always shown; known, mark: seq and mark of the board that the client shows.
        find: text to find in the list of sessions.
        q, only: search within the session, and whether only hits are shown.
        at: seq of the first event on screen; hits between `first` and `last` are marked.
        counted, count: seq up to which earlier requests have counted `count` hits.
        down, up: how far they searched for the hits before and after the selected event.
        part: limits the request to one of these searches.
    """

    event: str
    seq: int | None
    around: int | None
    before: int | None
    after: int | None
    tab: str
    raw: str
    hit: int | None
    open: str
    delta: str
    scope: str
    keys: str
    key: str
    begin: str
    diff: str
    watch: list[str]
    known: int | None
    mark: str
    find: str
    q: str
    only: bool
    at: int | None
    first: int | None
    last: int | None
    counted: int | None
    count: int | None
    down: int | None
    up: int | None
    part: str

    @classmethod
    def read(cls, parameters: QueryDict) -> SessionPageQuery:
        """Read a query string.

        Raises:
            BadInput: a parameter is invalid.
        """
        return cls(**_SessionPageForm(parameters).read())

    @property
    def search(self) -> dict[str, str]:
        """The parameters of the search that links within the page keep."""
        return {"q": self.q, **({"only": "1"} if self.only else {})} if self.q else {}


class _SessionPageForm(QueryForm):
    event = forms.CharField(required=False, strip=False)
    seq = forms.IntegerField(required=False)
    around = forms.IntegerField(required=False)
    before = forms.IntegerField(required=False, min_value=0)
    after = forms.IntegerField(required=False, min_value=0)
    tab = forms.ChoiceField(required=False, choices=TABS)
    raw = forms.CharField(required=False, strip=False, max_length=500)
    hit = forms.IntegerField(required=False, min_value=1)
    open = forms.ChoiceField(required=False, choices=[("all", "all")])
    delta = forms.ChoiceField(required=False, choices=[("all", "all")])
    scope = forms.ChoiceField(required=False, choices=[(name, name) for name in SCOPES])
    keys = forms.CharField(required=False)
    key = forms.CharField(required=False, max_length=200)
    begin = forms.CharField(required=False, strip=False, max_length=1_000)
    diff = forms.CharField(required=False)
    watch = MultiValueField(required=False)
    known = forms.IntegerField(required=False, min_value=1)
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
