"""Views of signing in and out, with one password."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote, urlsplit

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.debug import sensitive_post_parameters

from devui.web.login import authentication, credentials_file, guard
from devui.web.login.credentials_file import Credentials
from devui.web.login.throttling import TooManyAttempts, throttle
from sessions_app.store.errors import NotFound

MAX_PASSWORD = 4096
"""Characters of a password that are checked."""


@sensitive_post_parameters("password")
async def sign_in(request: HttpRequest) -> HttpResponse:
    """Show the sign-in page; with the right password, set the cookie and redirect to the requested page."""
    login = _require_login_set_up()
    next_path = safe_path(request.POST.get("next") or request.GET.get("next", ""))
    if authentication.login_id(login, request.COOKIES):
        return HttpResponseRedirect(next_path, status=303)
    if request.method != "POST":
        return await login_page(request, next_path)
    password, address = request.POST.get("password", "")[:MAX_PASSWORD], request.META.get("REMOTE_ADDR", "")
    try:
        if await throttle.check(login, password, address):
            return _signed_in_response(request, login, next_path)
    except TooManyAttempts as error:
        return await throttled_page(request, next_path, error)
    return await login_page(request, next_path, "Wrong password.", 422)


def sign_out(request: HttpRequest) -> HttpResponse:
    """End this browser's login, also for copies of its cookie."""
    login = _require_login_set_up()
    if number := authentication.login_id(login, request.COOKIES):
        credentials_file.end_login(number, authentication.AGE_S)
    response = HttpResponseRedirect(reverse("devui-login"), status=303)
    response.delete_cookie(login.cookie, path=root_path(), samesite="Strict")
    return response


def safe_path(target: str) -> str:
    """Return the requested path if it belongs to DevUI and is not for signing in or out, else the home page."""
    is_ours = target.startswith("/") and url_has_allowed_host_and_scheme(target, allowed_hosts=None)
    path = posixpath.normpath(unquote(urlsplit(target).path)) + "/" if is_ours else ""
    is_login_page = path.startswith((reverse("devui-login"), reverse("devui-logout")))
    return target if is_ours and not is_login_page else reverse("home")


def _require_login_set_up() -> Credentials:
    login = credentials_file.read_credentials()
    if login is None:
        raise NotFound("No login is set up.", hint="To require one, run `python manage.py login`.")
    return login


def _signed_in_response(request: HttpRequest, login: Credentials, next_path: str) -> HttpResponse:
    response = HttpResponseRedirect(next_path, status=303)
    set_cookie(request, response, login.cookie, authentication.new_cookie(login))
    return response


def set_cookie(request: HttpRequest, response: HttpResponse, name: str, value: str) -> None:
    """Set the cookie of a login."""
    response.set_cookie(
        name,
        value,
        max_age=authentication.AGE_S,
        path=root_path(),
        secure=request.is_secure() or request.headers.get("Origin", "").startswith("https:"),
        httponly=True,
        samesite="Strict",
    )


async def login_page(
    request: HttpRequest, next_path: str, problem: str = "", status: int = 200, **context: object
) -> HttpResponse:
    """Return the sign-in page.

    A request from another site carries no strict cookie. The page then repeats the request by itself, which makes it a
    request of this site and sends the cookie of a browser that has signed in.
    """
    came_from_elsewhere = request.headers.get("Sec-Fetch-Site") in {"cross-site", "same-site"}
    context |= guard.form_context(next_path) | {
        "problem": problem,
        "retries": came_from_elsewhere and request.method == "GET" and status == 200,
    }
    response = await sync_to_async(render)(request, guard.FORM, context, status=status)
    response.headers["Cache-Control"] = "no-store"
    return response


async def throttled_page(
    request: HttpRequest, next_path: str, error: TooManyAttempts, **context: object
) -> HttpResponse:
    """Return the sign-in page that says when passwords can be tried again."""
    problem = f"{error.message} {error.hint}"
    response = await login_page(request, next_path, problem, error.status, **context)
    response.headers["Retry-After"] = str(error.retry_after)
    return response


def root_path() -> str:
    """Return the path of the login's cookie."""
    return reverse("home")
