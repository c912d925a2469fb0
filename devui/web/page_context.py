"""Context of the frame of every page: navigation, the selected app."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from devui.web.agent_evalsets import AgentEvalset, read_folder_evalsets
from devui.web.mount_path import path_below_mount
from sessions_app.agents.folder import configured_folder
from sessions_app.http import Access, request_access


@dataclass(frozen=True, slots=True)
class Place:
    """A page of the navigation.

    Attributes:
        name: first segment of the addresses of its pages.
        other_names: further first segments.
        key: the key after `g` that leads there.
        by_app: whether its page can be filtered by app, so that links take `?app=`.
    """

    name: str
    label: str
    key: str
    route: str
    by_app: bool = True
    other_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlaceGroup:
    """Pages of the navigation under one label; the label leads to the first."""

    label: str
    places: tuple[Place, ...]


WORKERS = Place("workers", "Workers", "w", "workers", by_app=False)
"""The page of a server whose agents run on workers."""

MONITOR = (
    Place("monitor", "Overview", "o", "monitor"),
    Place("trends", "Trends", "d", "trends"),
    Place("runs", "Runs", "r", "runs", other_names=("traces",)),
    Place("prices", "Prices", "c", "prices", by_app=False),
)
DATA = (
    Place("state", "State", "t", "state"),
    Place("artifacts", "Artifacts", "f", "artifacts"),
    Place("memory", "Memory", "m", "memory"),
)


def navigation() -> tuple[Place | PlaceGroup, ...]:
    """Return the navigation of this server."""
    has_workers = bool(getattr(settings, "DEVUI_ENGINE", ""))
    return (
        Place("agents", "Agents", "a", "home", by_app=False),
        Place("sessions", "Sessions", "s", "sessions"),
        Place("problems", "Problems", "p", "problems"),
        Place("evals", "Evals", "e", "evals"),
        PlaceGroup("Monitor", (*MONITOR, WORKERS) if has_workers else MONITOR),
        PlaceGroup("Data", DATA),
    )


def list_places() -> list[Place]:
    """Return the pages of the navigation, without groups."""
    return [
        place
        for entry in navigation()
        for place in (entry.places if isinstance(entry, PlaceGroup) else (entry,))
    ]


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
        """Name of the current page of the navigation, by the route or the address; empty outside of all."""
        places = list_places()
        route = self._match.url_name if self._match else None
        segment = path_below_mount(self._request).partition("/")[0] or "agents"
        by_route = (place.name for place in places if place.route == route)
        by_segment = (place.name for place in places if segment in (place.name, *place.other_names))
        return next(chain(by_route, by_segment), "")

    @cached_property
    def places(self) -> list[dict[str, Any]]:
        """The entries of the navigation. If `by_app`, the link takes `?app=`. Groups have `places` of their own."""
        return [
            self._group_entry(entry) if isinstance(entry, PlaceGroup) else self._place_entry(entry)
            for entry in navigation()
        ]

    @property
    def pages(self) -> list[dict[str, Any]]:
        """The pages of the navigation, without groups."""
        return [self._place_entry(place) for place in list_places()]

    def _place_entry(self, place: Place) -> dict[str, Any]:
        return {
            "label": place.label,
            "key": place.key,
            "href": reverse(place.route),
            "by_app": place.by_app,
            "current": place.name == self.place,
        }

    def _group_entry(self, group: PlaceGroup) -> dict[str, Any]:
        places = [self._place_entry(place) for place in group.places]
        is_current = any(place["current"] for place in places)
        return {**places[0], "label": group.label, "key": "", "places": places, "current": is_current}

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
