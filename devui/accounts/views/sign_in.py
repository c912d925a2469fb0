"""Views of signing in and out."""

from __future__ import annotations

from functools import partial

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters

from devui.accounts import guard, logins
from devui.web.login import throttling
from devui.web.login.throttling import TooManyAttempts
from devui.web.login.views import (
    MAX_PASSWORD,
    login_page,
    root_path,
    safe_path,
    set_cookie,
    throttled_page,
)
from sessions_app.store import scopes
from sessions_app.store.database import units_of_work

MAX_NAME = 150
"""Characters of a name, as in Django's table of users."""


@sensitive_post_parameters("password")
async def sign_in(request: HttpRequest) -> HttpResponse:
    """Show the sign-in page; with the right name and password, set the cookie and redirect to the requested page."""
    next_path = safe_path(request.POST.get("next") or request.GET.get("next", ""))
    if guard.request_person(request) is not None:
        return HttpResponseRedirect(next_path, status=303)
    show = partial(login_page, request, next_path)
    if request.method != "POST":
        return await show()
    name = scopes.clean_text(request.POST.get("name", "").strip()[:MAX_NAME])
    verify = partial(logins.check_password, name, request.POST.get("password", "")[:MAX_PASSWORD])
    guard.note_sign_in(request, name)
    try:
        user = await throttling.throttle.attempt(verify, request.META.get("REMOTE_ADDR", ""), name)
    except TooManyAttempts as error:
        return await throttled_page(request, next_path, error, name=name)
    if user is None:
        return await show("Wrong name or password.", 422, name=name)
    redirect = HttpResponseRedirect(next_path, status=303)
    value = await units_of_work.write(logins.start_login, user)
    set_cookie(request, redirect, logins.cookie_name(), value)
    return redirect


async def sign_out(request: HttpRequest) -> HttpResponse:
    """End this browser's login, also for copies of its cookie."""
    await units_of_work.write(logins.end_login, request.COOKIES)
    response = HttpResponseRedirect(reverse("devui-login"), status=303)
    response.delete_cookie(logins.cookie_name(), path=root_path(), samesite="Strict")
    return response
