"""Every address of DevUI, read from its routes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.urls import URLPattern, URLResolver, get_resolver

FILLED = {
    "app_name": "weather",
    "user_id": "ann",
    "session_id": "s1",
    "run_id": "r1",
    "evalset_id": "set",
    "case_id": "case",
    "event_id": "e1",
}


def routes() -> list[str]:
    """Return every route, as `resolve` names it."""
    return sorted(set(_routes(get_resolver())))


def addresses() -> list[str]:
    """Return one address for every route: numbers are 1, names those of `FILLED`."""
    return sorted({"/" + fill_route(route).lstrip("/") for route in routes()})


def _routes(resolver: URLResolver, prefix: str = "") -> Iterator[str]:
    for entry in resolver.url_patterns:
        route = prefix + str(entry.pattern)
        if isinstance(entry, URLPattern):
            yield route
        else:
            yield from _routes(entry, route)


def fill_route(route: str) -> str:
    """Return an address of a route."""
    route = re.sub(r"<int:\w+>", "1", route)
    return re.sub(r"<(?:\w+:)?(\w+)>", lambda name: FILLED.get(name[1], name[1]), route)
