"""Views of signing in and out."""

from __future__ import annotations

from functools import partial

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters

from devui.accounts import guard, logins, owner
from devui.web.login import throttling
from devui.web.login.sign_in_page import login_page, safe_path, throttled_page
from devui.web.login.throttling import TooManyAttempts
from sessions_app.store import scopes
from sessions_app.store.database import units_of_work

MAX_NAME = 150
"""Characters of a name, as in Django's table of users."""

MAX_PASSWORD = 4096
"""Characters of a password that are checked."""


@sensitive_post_parameters("password")
async def sign_in(request: HttpRequest) -> HttpResponse:
    """Show the sign-in page; with the right password, set the cookie and redirect to the requested page.

    Raises:
        NotFound: nobody needs a login.
    """
    await _require_login()
    next_path = safe_path(request.POST.get("next") or request.GET.get("next", ""))
    if guard.request_person(request) is not None:
        return HttpResponseRedirect(next_path, status=303)
    show = partial(login_page, request, next_path)
    if request.method != "POST":
        return await show()
    has_users = settings.DEVUI_USERS
    name = scopes.clean_text(request.POST.get("name", "").strip()[:MAX_NAME]) if has_users else owner.OWNER
    verify = partial(logins.check_password, name, request.POST.get("password", "")[:MAX_PASSWORD])
    guard.note_sign_in(request, name)
    try:
        user = await throttling.throttle.attempt(
            verify, request.META.get("REMOTE_ADDR", ""), name if has_users else ""
        )
    except TooManyAttempts as error:
        return await throttled_page(request, next_path, error, name=name)
    if user is None:
        return await show("Wrong name or password." if has_users else "Wrong password.", 422, name=name)
    redirect = HttpResponseRedirect(next_path, status=303)
    logins.set_cookie(request, redirect, await units_of_work.write(logins.start_login, user))
    return redirect


async def sign_out(request: HttpRequest) -> HttpResponse:
    """End this browser's login, also for copies of its cookie.

    Raises:
        NotFound: nobody needs a login.
    """
    await _require_login()
    await units_of_work.write(logins.end_login, request.COOKIES)
    response = HttpResponseRedirect(reverse("devui-login"), status=303)
    logins.delete_cookie(response)
    return response


async def _require_login() -> None:
    if not settings.DEVUI_USERS:
        await units_of_work.read(owner.require_owner)
