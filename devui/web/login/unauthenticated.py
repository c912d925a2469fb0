"""Requests without a login: the addresses that are open to them, and how all others are refused.

A server that listens on the network always needs a login: if it is removed while the server runs, it refuses all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.cookie import parse_cookie
from django.shortcuts import render
from django.templatetags.static import static
from django.urls import reverse
from django.utils.http import MAX_URL_LENGTH

from devui.web import error_responses
from sessions_app.routes import find_rule

PUBLIC_FILES = (
    "favicon.svg",
    "icons.svg",
    "js/core/boot.js",
    "css/base/base.css",
    "css/base/tokens.css",
    "css/components/components.css",
    "css/components/forms.css",
    "css/media.css",
    "css/pages/login.css",
)
"""Files of the sign-in page."""

FORM = "devui/login.html"

LOGIN_REQUIRED = error_responses.ErrorAnswer(
    401,
    "Login required",
    "login_required",
    "In a browser, load the page again and sign in. Programs send `Authorization: Bearer TOKEN`:"
    " `python manage.py login --token` makes one.",
)
NO_LOGIN = error_responses.ErrorAnswer(
    503,
    "This server listens on the network, and its login was removed.",
    "login_missing",
    "On the server's machine, set one up: `python manage.py login`.",
)


def refuses_without_owner() -> bool:
    """Tell whether this server refuses every request while no login is set up: it listens on the network."""
    return bool(getattr(settings, "DEVUI_LOGIN_REQUIRED", False))


def handshake_credentials(scope: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    """Return cookies and Authorization header of a handshake."""
    cookies: list[str] = []
    authorization = ""
    for name, value in scope.get("headers", []):
        if name.lower() == b"cookie":
            cookies.append(value.decode("latin-1"))
        elif name.lower() == b"authorization":
            authorization = value.decode("latin-1")
    return parse_cookie("; ".join(cookies)), authorization


def is_public(request: HttpRequest) -> bool:
    """Tell whether a request needs no login: by the rule of its route, or for a file of the sign-in page."""
    if request.path.startswith(settings.STATIC_URL):
        return request.path in {static(f"devui/{name}") for name in PUBLIC_FILES}
    rule = find_rule(request)
    return rule is not None and rule.is_public


def login_required_response(
    request: HttpRequest, problem: error_responses.ErrorAnswer = LOGIN_REQUIRED
) -> HttpResponse:
    """Redirect browsers to the sign-in page; answer 401 to programs and htmx requests."""
    if _is_navigation(request):
        if request.method in {"GET", "HEAD"}:
            path = request.get_full_path()
            query = f"?{urlencode({'next': path})}" if len(path) <= MAX_URL_LENGTH else ""
            return HttpResponseRedirect(reverse("devui-login") + query, status=303)
        if request.method == "POST":
            return _login_form_response(request)
    return _with_challenge(error_responses.bare_response(request, problem))


def _with_challenge(answer: HttpResponse) -> HttpResponse:
    answer.headers["WWW-Authenticate"] = 'Bearer realm="DevUI"'
    answer.headers["Cache-Control"] = "no-store"
    return answer


def _login_form_response(request: HttpRequest) -> HttpResponse:
    """Answer a form that was sent after the login had ended. The form has no effect."""
    context = form_context(_path_and_query(request.headers.get("Referer", ""))) | {"was_ended": True}
    return _with_challenge(render(request, FORM, context, status=401))


def form_context(next_path: str) -> dict[str, Any]:
    """Return the context of the sign-in form that leads to a path."""
    return {
        "next": next_path,
        "has_users": getattr(settings, "DEVUI_USERS", False),
        "provider": getattr(settings, "DEVUI_OIDC", None),
    }


def _is_navigation(request: HttpRequest) -> bool:
    """Tell whether a browser requests a whole page."""
    if request.headers.get("HX-Request") or error_responses.is_api(request):
        return False
    return request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate"


def _path_and_query(address: str) -> str:
    """Return path and query of a URL that a browser sent; the user of the value validates it."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    return parts.path + (f"?{parts.query}" if parts.query else "")
