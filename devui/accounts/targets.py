"""The apps of the objects that a request is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from django.db.models import QuerySet
from django.http import HttpRequest

from evals_app.models import EvalAttempt, EvalRun, Optimisation
from sessions_app.console.sign_in_cookies import PendingSignIn
from sessions_app.store import text_input
from sessions_app.store.ids import is_storable
from sessions_app.store.models import AgentSession, Run

JSON_ROUTES = ("api/", "run")
"""Prefixes of the routes that take JSON. `run` is also the prefix of `runs/`, whose forms name no app."""

SESSION_ROUTES = ("sessions/id/", "runs/", "evals/replay/")
"""Prefixes of the routes whose `pk` is that of a session."""

SESSION_FIELD = "session"
"""Field of JSON bodies with the key of a session."""

STATE_FIELD = "state"
"""Field of the query with which a provider returns from a sign-in: a cookie names its session."""

MAX_KEY = 2**63 - 1


def find_app(route: str, kwargs: Mapping[str, Any]) -> str:
    """Return the app of the object that an address names; empty if it names none, or one that does not exist."""
    if name := kwargs.get("app_name") or kwargs.get("app"):
        return str(name)
    if not all(map(_is_key, kwargs.values())):
        return ""
    if "evals/runs/" in route and "run_id" in kwargs:
        return _first_value(EvalRun.objects.filter(pk=kwargs["run_id"]), "app_name")
    if "evals/attempts/" in route:
        return _first_value(EvalAttempt.objects.filter(pk=kwargs["attempt"]), "run__app_name")
    if "optimisation_id" in kwargs:
        optimisations = Optimisation.objects.filter(pk=kwargs["optimisation_id"])
        return _first_value(optimisations, "evalset__app_name")
    if "run_id" in kwargs:
        return _first_value(Run.objects.filter(pk=kwargs["run_id"]), "session__app_name")
    session = kwargs.get("session") or (kwargs.get("pk") if route.startswith(SESSION_ROUTES) else None)
    return _first_value(AgentSession.objects.filter(pk=session), "app_name") if session else ""


def app_in_body(request: HttpRequest, route: str, field: str) -> str | None:
    """Return the app that a field of the body of a request names, or that of its session; empty if it names none.

    None if the body cannot be read. The role is then needed in every app: the view may be able to read it.
    """
    if field == STATE_FIELD:
        sign_in = PendingSignIn.read(request.COOKIES, request.GET.get(field, ""))
        return find_app("", {"session": sign_in.session}) if sign_in else ""
    if not route.startswith(JSON_ROUTES):
        return str(request.POST.get(field, ""))
    try:
        body = text_input.parse_json(request.body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    if field == SESSION_FIELD:
        key = body.get(field)
        return find_app("", {"session": key}) if isinstance(key, int) else ""
    # as the view of these paths does; a program may send ADK's other spelling
    return str(body.get(field, body.get("app_name")) or "")


def apps_in_query(query_string: bytes) -> list[str]:
    """Return every app that the query of a socket names: servers differ in which one they use."""
    return parse_qs(query_string.decode("latin-1")).get("app_name", [""])


def _is_key(value: object) -> bool:
    """Tell whether the store can have a row with this key."""
    return value <= MAX_KEY if isinstance(value, int) else is_storable(str(value))


def _first_value(rows: QuerySet[Any], name: str) -> str:
    return str(rows.values_list(name, flat=True).first() or "")
