"""Login requirement: once a login is set up, every request and socket needs it, except for the sign-in page itself.

A server that listens on the network always needs one: if it is removed while the server runs, all requests are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode, urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.cookie import parse_cookie
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.templatetags.static import static
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.utils.http import MAX_URL_LENGTH

from devui.web import error_responses
from devui.web.login import authentication, credentials_file
from devui.web.login.credentials_file import Login, LoginUnreadable
from devui.web.middleware import Middleware
from devui.web.origins import AsgiApp, AsgiScope

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

RECHECK_S = 2.0
"""Seconds between checks whether the login of an open socket has ended."""

POLICY_VIOLATION = 1008
LOGIN_ENDED = "The login has ended."

LOGIN_REQUIRED = error_responses.Problem(
    401,
    "Login required",
    "login_required",
    "In a browser, load the page again and sign in. Programs send `Authorization: Bearer TOKEN`:"
    " `python manage.py login --token` makes one.",
)
NO_LOGIN = error_responses.Problem(
    503,
    "This server listens on the network, and its login was removed.",
    "login_missing",
    "On the server's machine, set one up: `python manage.py login`.",
)


def is_login_required() -> bool:
    """Tell whether this server refuses every request without a login."""
    return bool(getattr(settings, "DEVUI_LOGIN_REQUIRED", False))


class LoginRequired(Middleware):
    """Requires the login. Browsers are redirected to the sign-in page, programs get 401."""

    def before(self, request: HttpRequest) -> HttpResponseBase | None:
        """Refuse a request without the login."""
        try:
            login = credentials_file.read_login()
            if login is None:
                return error_responses.bare_response(request, NO_LOGIN) if is_login_required() else None
            if _is_authenticated(request, login) or is_public(request):
                return None
        except LoginUnreadable as error:
            return error_responses.bare_response(request, error_responses.problem_of(error))
        return login_required_response(request)

    def after(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Send `Cache-Control: no-store` with authenticated responses that set none themselves."""
        if getattr(request, "devui_login", None) is not None:
            response.headers.setdefault("Cache-Control", "no-store")
            patch_vary_headers(response, ["Cookie", "Authorization"])
        return response


class LoginSockets:
    """ASGI middleware for sockets: opens them only with a login, and closes them when it ends."""

    def __init__(self, app: AsgiApp) -> None:
        self.app = app

    async def __call__(self, scope: AsgiScope, receive: Any, send: Any) -> None:
        """Pass the socket on while the login is valid, or deny the handshake (403)."""
        if not _has_valid_login(scope):
            await WebsocketDenier()(scope, receive, send)
            return
        is_closed = False

        async def close() -> None:
            nonlocal is_closed
            if not is_closed:
                is_closed = True
                await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": LOGIN_ENDED})

        async def send_while_valid(message: dict[str, Any]) -> None:
            nonlocal is_closed
            if message["type"] == "websocket.send" and not _has_valid_login(scope):
                await close()
            elif not is_closed:
                is_closed = message["type"] == "websocket.close"
                await send(message)

        async def receive_while_valid() -> Any:
            message = await receive()
            if message["type"] == "websocket.receive" and not _has_valid_login(scope):
                await close()
                return {"type": "websocket.disconnect", "code": POLICY_VIOLATION}
            return message

        async def watch() -> None:
            while True:
                await asyncio.sleep(RECHECK_S)
                if not _has_valid_login(scope):
                    with suppress(OSError):  # the client has disconnected
                        await close()
                    return

        watching = asyncio.create_task(watch(), name="devui-login-of-socket")
        try:
            await self.app(scope, receive_while_valid, send_while_valid)
        finally:
            watching.cancel()


def _is_authenticated(request: HttpRequest, login: Login) -> bool:
    if not authentication.is_authenticated(login, request.COOKIES, request.headers.get("Authorization", "")):
        return False
    request.devui_login = login  # type: ignore[attr-defined]  # read by the frame of pages
    return True


def _has_valid_login(scope: Mapping[str, Any]) -> bool:
    try:
        login = credentials_file.read_login()
        if login is None:
            return not is_login_required()
        return authentication.is_authenticated(login, *credentials_of(scope))
    except LoginUnreadable:
        return False


def credentials_of(scope: Mapping[str, Any]) -> tuple[dict[str, str], str]:
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
    """Tell whether a request needs no login: for the sign-in page, or for one of its files."""
    return request.path in {reverse("devui-login"), *(static(f"devui/{name}") for name in PUBLIC_FILES)}


def login_required_response(
    request: HttpRequest, problem: error_responses.Problem = LOGIN_REQUIRED
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
