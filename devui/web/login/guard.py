"""Login requirement: once a login is set up, every request and socket needs it, except for the sign-in page itself.

A server that listens on the network always needs one: if it is removed while the server runs, all requests are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

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
from devui.web.body_admission import find_pending_body
from devui.web.login import authentication, credentials_file
from devui.web.login.credentials_file import LoginUnreadable
from devui.web.login.revocation import answer_while_permitted
from devui.web.login.sockets import GuardedSockets
from devui.web.middleware import Middleware
from devui.web.origins import AsgiScope
from sessions_app.http import Access, request_access, set_access
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


def is_login_required() -> bool:
    """Tell whether this server refuses every request without a login."""
    return bool(getattr(settings, "DEVUI_LOGIN_REQUIRED", False))


class LoginAccess(Access):
    """The access of a request with the login."""

    async def is_permitted(self, request: HttpRequest) -> bool:
        """Tell whether the login or token of the request is still valid."""
        return _is_valid(request.COOKIES, request.headers.get("Authorization", ""))


class Guard(Middleware):
    """Base class: refuses a request by its headers, then by its body, and ends it when its sender loses the right."""

    async def find_refusal(self, request: HttpRequest) -> HttpResponseBase | None:
        """Return the refusal of a request by its headers and its address; None lets it pass."""
        return self.before(request)

    async def _answer_request(self, request: HttpRequest) -> HttpResponseBase:
        response = (
            await self.find_refusal(request)
            or await self._refuse_body(request)
            or await answer_while_permitted(request, self.get_response)
        )
        return self.after(request, response)

    async def _refuse_body(self, request: HttpRequest) -> HttpResponseBase | None:
        """Read the body. Refuse one that exceeds a limit, or whose sender lost the right while it was sent."""
        body = find_pending_body(request)
        if body is None:
            return None
        if problem := await body.read(request, is_public=is_public(request)):
            return error_responses.problem_response(request, problem)
        return None if body.was_prompt else await self.find_refusal(request)

    def after(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Send `Cache-Control: no-store` with authenticated responses that set none themselves."""
        if request_access(request).is_authenticated:
            response.headers.setdefault("Cache-Control", "no-store")
            patch_vary_headers(response, ["Cookie", "Authorization"])
        return response


class LoginRequired(Guard):
    """Requires the login. Browsers are redirected to the sign-in page, programs get 401."""

    def before(self, request: HttpRequest) -> HttpResponseBase | None:
        """Check the login; return the refusal, or None."""
        try:
            login = credentials_file.read_credentials()
            if login is None:
                return error_responses.bare_response(request, NO_LOGIN) if is_login_required() else None
            if authentication.is_authenticated(
                login, request.COOKIES, request.headers.get("Authorization", "")
            ):
                set_access(request, LoginAccess(is_authenticated=True))
                return None
            if is_public(request):
                set_access(request, Access(is_stranger=True))
                return None
        except LoginUnreadable as error:
            return error_responses.bare_response(request, error_responses.find_problem(error))
        return login_required_response(request)


class LoginSockets(GuardedSockets):
    """Opens sockets only with a login, and closes them when it ends, at the latest with the next message."""

    async def may_stay(self, scope: AsgiScope) -> bool:
        """Tell whether the login of a socket is valid."""
        return self.may_pass(scope)

    def may_pass(self, scope: AsgiScope) -> bool:
        """Tell whether the login of a socket is valid."""
        return _is_valid(*handshake_credentials(scope))


def _is_valid(cookies: Mapping[str, str], authorization: str) -> bool:
    try:
        login = credentials_file.read_credentials()
        if login is None:
            return not is_login_required()
        return authentication.is_authenticated(login, cookies, authorization)
    except LoginUnreadable:
        return False


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
