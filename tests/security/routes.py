"""Every address of DevUI, read from its routes."""

from __future__ import annotations

import re

from django.urls import get_resolver

from sessions_app.roles import AccessRule
from sessions_app.routes import list_rules

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
    return sorted({route for _, route in all_rules()})


def all_rules() -> dict[tuple[str, str], AccessRule]:
    """Return the rule of each method and route."""
    return {(method, route): rule for method, route, rule in list_rules(get_resolver().url_patterns)}


def addresses() -> list[str]:
    """Return one address for every route: numbers are 1, names those of `FILLED`."""
    return sorted({"/" + fill_route(route).lstrip("/") for route in routes()})


def fill_route(route: str) -> str:
    """Return an address of a route."""
    route = re.sub(r"<int:\w+>", "1", route)
    return re.sub(r"<(?:\w+:)?(\w+)>", lambda name: FILLED.get(name[1], name[1]), route)
