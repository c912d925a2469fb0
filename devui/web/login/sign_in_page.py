"""The sign-in page, and where it may lead."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote, urlsplit

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from devui.web.login import unauthenticated
from devui.web.login.throttling import TooManyAttempts


def safe_path(target: str) -> str:
    """Return the requested path if it belongs to DevUI and is not for signing in or out, else the home page."""
    is_ours = target.startswith("/") and url_has_allowed_host_and_scheme(target, allowed_hosts=None)
    path = posixpath.normpath(unquote(urlsplit(target).path)) + "/" if is_ours else ""
    is_login_page = path.startswith((reverse("devui-login"), reverse("devui-logout")))
    return target if is_ours and not is_login_page else reverse("home")


async def login_page(
    request: HttpRequest, next_path: str, problem: str = "", status: int = 200, **context: object
) -> HttpResponse:
    """Return the sign-in page.

    A request from another site carries no strict cookie. The page then repeats the request by itself, which makes it a
    request of this site and sends the cookie of a browser that has signed in.
    """
    came_from_elsewhere = request.headers.get("Sec-Fetch-Site") in {"cross-site", "same-site"}
    context |= unauthenticated.form_context(next_path) | {
        "problem": problem,
        "retries": came_from_elsewhere and request.method == "GET" and status == 200,
    }
    response = await sync_to_async(render)(request, unauthenticated.FORM, context, status=status)
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
