"""The page that asks for the password, and the way out."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote, urlsplit

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from devui.web.login import authentication, credentials_file
from devui.web.login.credentials_file import Login
from devui.web.login.throttling import TooManyAttempts, throttle
from sessions_app.errors import NotFound

PAGE = "devui/login.html"
MAX_PASSWORD = 4096
"""Characters of a password that are looked at."""


@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
async def log_in(request: HttpRequest) -> HttpResponse:
    """Ask for the password; with the right one, give the browser a cookie and lead where it wanted to go.

    Raises:
        NotFound: no login is set up.
    """
    login = _require_login_set_up()
    next_path = safe_path(request.POST.get("next") or request.GET.get("next", ""))
    if authentication.login_id(login, request.COOKIES):
        return HttpResponseRedirect(next_path, status=303)
    if request.method != "POST":
        return await _page(request, next_path)
    password, address = request.POST.get("password", "")[:MAX_PASSWORD], request.META.get("REMOTE_ADDR", "")
    try:
        if await throttle.check(login, password, address):
            return _logged_in_response(request, login, next_path)
    except TooManyAttempts as error:
        return await _page(request, next_path, f"{error.message} {error.hint}", error.status)
    return await _page(request, next_path, "This is not the password.", 422)


@require_POST
def log_out(request: HttpRequest) -> HttpResponse:
    """End this browser's login, for copies of its cookie too.

    Raises:
        NotFound: no login is set up.
    """
    login = _require_login_set_up()
    if number := authentication.login_id(login, request.COOKIES):
        authentication.revoke_login(number)
    response = HttpResponseRedirect(reverse("devui-login"), status=303)
    response.delete_cookie(login.cookie, path=_root(), samesite="Strict")
    return response


def safe_path(target: str) -> str:
    """Return the path of ours that somebody wants to go to; anything else, and the way out, leads to the first page."""
    is_ours = target.startswith("/") and url_has_allowed_host_and_scheme(target, allowed_hosts=None)
    path = posixpath.normpath(unquote(urlsplit(target).path)) + "/" if is_ours else ""
    is_door = path in {reverse("devui-login"), reverse("devui-logout")}
    return target if is_ours and not is_door else reverse("home")


def _require_login_set_up() -> Login:
    login = credentials_file.read_login()
    if login is None:
        raise NotFound(
            "No login is set up.", hint="Set one up by `python manage.py login`, if it is to ask for one."
        )
    return login


def _logged_in_response(request: HttpRequest, login: Login, next_path: str) -> HttpResponse:
    response = HttpResponseRedirect(next_path, status=303)
    response.set_cookie(
        login.cookie,
        authentication.new_cookie(login),
        max_age=authentication.AGE_S,
        path=_root(),
        secure=request.is_secure() or request.headers.get("Origin", "").startswith("https:"),
        httponly=True,
        samesite="Strict",
    )
    return response


async def _page(request: HttpRequest, next_path: str, problem: str = "", status: int = 200) -> HttpResponse:
    """Return the page.

    Who comes from another site may have a cookie, which a strict one does not bring along: the page then asks for
    the address once more, by itself, and that is a request from here.
    """
    came_from_elsewhere = request.headers.get("Sec-Fetch-Site") in {"cross-site", "same-site"}
    context = {
        "next": next_path,
        "problem": problem,
        "retries": came_from_elsewhere and request.method == "GET",
    }
    response = await sync_to_async(render)(request, PAGE, context, status=status)
    response.headers["Cache-Control"] = "no-store"
    return response


def _root() -> str:
    return reverse("home")
