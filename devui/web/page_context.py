"""Context of the frame of every page: navigation, the selected app."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from devui.web.agent_evalsets import AgentEvalset, read_folder_evalsets
from devui.web.mount_path import path_below_mount
from sessions_app.agents.folder import configured_folder
from sessions_app.http import Access, request_access

NAVIGATION = (
    ("agents", "Agents", "a", "home"),
    ("sessions", "Sessions", "s", "sessions"),
    ("state", "State", "t", "state"),
    ("runs", "Runs", "r", "runs"),
    ("traces", "Traces", "x", "traces"),
    ("trends", "Trends", "d", "trends"),
    ("artifacts", "Artifacts", "f", "artifacts"),
    ("memory", "Memory", "m", "memory"),
    ("evals", "Evals", "e", "evals"),
)
"""(first segment of the addresses of its pages, label, key after `g`, route)"""

WORKERS = ("workers", "Workers", "w", "workers")
"""The navigation item of a server whose agents run on workers."""

WITHOUT_APP_FILTER = frozenset({"agents", "workers"})
"""Navigation items whose pages have no filter by app."""


def navigation() -> tuple[tuple[str, str, str, str], ...]:
    """Return the navigation items of this server."""
    return (*NAVIGATION, WORKERS) if getattr(settings, "DEVUI_ENGINE", "") else NAVIGATION


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
        """Name of the current navigation item, by the address; empty outside of all."""
        segment = path_below_mount(self._request).partition("/")[0] or "agents"
        return segment if any(name == segment for name, *_ in navigation()) else ""

    @cached_property
    def places(self) -> list[dict[str, Any]]:
        """The navigation items. If `by_app`, the link takes `?app=`."""
        return [
            {
                "label": label,
                "key": key,
                "href": reverse(route),
                "by_app": name not in WITHOUT_APP_FILTER,
                "current": name == self.place,
            }
            for name, label, key, route in navigation()
        ]

    @cached_property
    def evalsets(self) -> list[AgentEvalset]:
        """The evalsets of the app of the page."""
        folder = configured_folder()
        is_in_folder = folder is not None and self.app in folder.names()
        return read_folder_evalsets(folder, self.app)[self.app] if is_in_folder else []

    @property
    def access(self) -> Access:
        """The login of the page's user."""
        return request_access(self._request)

    @property
    def role(self) -> str:
        """The user's role in the app of the page; empty without users."""
        return self.access.role_in(self.app)


def shell(request: HttpRequest) -> dict[str, Any]:
    """Context processor that adds `shell`."""
    return {"shell": Shell(request)}
