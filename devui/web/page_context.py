"""Context of the frame of every page: navigation, the selected app."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from devui.web.agent_evalsets import AgentEvalset, evalsets_of
from sessions_app.agents.folder import configured_folder


@dataclass(frozen=True, slots=True)
class NavigationItem:
    """A main page in the navigation, reached by its link or by `g` and its key. If `by_app`, its link takes `?app=`."""

    label: str
    key: str
    href: str
    by_app: bool
    current: bool


NAVIGATION = (
    ("agents", "Agents", "a", "home", ("home", "agent")),
    (
        "sessions",
        "Sessions",
        "s",
        "sessions",
        (
            *("sessions", "session", "session-by-pk", "session-new", "session-compare", "session-rewind"),
            *("session-fork", "session-rename", "session-delete", "session-drift", "session-hints"),
            *("session-message", "session-live", "session-replay"),
            *("message-edit", "run-resume", "key-edit", "key-remove"),
            *("query-help", "saved-views"),
        ),
    ),
    ("state", "State", "t", "state", ("state", "state-whole-value", "key-history")),
    ("runs", "Runs", "r", "runs", ("runs",)),
    (
        "traces",
        "Traces",
        "x",
        "traces",
        ("traces", "trace", "model-call", "event-model-call", "event-seen", "event-trace"),
    ),
    (
        "artifacts",
        "Artifacts",
        "f",
        "artifacts",
        ("artifacts", "artifact", "artifacts-there", "artifact-upload", "artifact-delete"),
    ),
    ("memory", "Memory", "m", "memory", ("memory", "memory-there", "memory-delete")),
    (
        "evals",
        "Evals",
        "e",
        "evals",
        (
            *("evals", "evalset", "eval-run", "eval-run-compare", "eval-trend", "eval-prices"),
            *("eval-new", "eval-upload", "eval-record", "eval-case"),
            *("evalset-change", "evalset-delete", "evalset-versions"),
        ),
    ),
)
"""(name, label, key after `g`, route, routes that belong to it)"""


class Shell:
    """The frame of one page. It queries the store only if the page shows evalsets."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._match = request.resolver_match

    @cached_property
    def app(self) -> str:
        """The app in the path or the query of the address; empty if none."""
        in_path = self._match.kwargs.get("app_name") if self._match else None
        return str(in_path or self._request.GET.get("app", ""))

    @cached_property
    def place(self) -> str:
        """Name of the current navigation item; empty outside of all."""
        route = self._match.url_name if self._match else None
        return next((name for name, *_, routes in NAVIGATION if route in routes), "")

    @cached_property
    def places(self) -> list[NavigationItem]:
        """The navigation items with a route here: a project may mount a part of DevUI only."""
        places = []
        for name, label, key, route, _ in NAVIGATION:
            try:
                href = reverse(route)
            except NoReverseMatch:
                continue
            places.append(NavigationItem(label, key, href, name != "agents", name == self.place))
        return places

    @cached_property
    def evalsets(self) -> list[AgentEvalset]:
        """The evalsets of the app of the page."""
        folder = configured_folder()
        is_in_folder = folder is not None and self.app in folder.names()
        return evalsets_of(folder, self.app)[self.app] if is_in_folder else []

    @property
    def has_login(self) -> bool:
        """Tell whether the user has logged in, and so can log out."""
        return getattr(self._request, "devui_login", None) is not None


def shell(request: HttpRequest) -> dict[str, Any]:
    """Context processor that adds `shell`."""
    return {"shell": Shell(request)}
