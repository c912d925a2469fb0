"""The page of a user's own account: role, and password."""

from __future__ import annotations

from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from devui.accounts import guard, logins, users
from devui.web.login.views import set_cookie
from sessions_app.errors import Forbidden
from sessions_app.store import units_of_work

PAGE = "devui/accounts/account.html"


@require_safe
async def account(request: HttpRequest) -> HttpResponse:
    """Show the user's name and role, and the form of the password."""
    user = await units_of_work.read(_find_user, request)
    return await units_of_work.read(_page, request, PasswordChangeForm(user))


@sensitive_post_parameters()
@require_POST
async def change_password(request: HttpRequest) -> HttpResponse:
    """Change the user's password. That ends all other logins of the user."""
    user = await units_of_work.read(_find_user, request)
    form = PasswordChangeForm(user, request.POST)
    if not await units_of_work.read(form.is_valid):
        return await units_of_work.read(_page, request, form, 422)
    value = await units_of_work.write(_save_password, user, form.cleaned_data["new_password1"])
    response = HttpResponseRedirect(f"{reverse('account')}?changed=password", status=303)
    set_cookie(request, response, logins.cookie_name(), value)
    return response


def _save_password(user: User, password: str) -> str:
    users.set_password(user, password)
    return logins.start_login(user)


def _find_user(request: HttpRequest) -> User:
    """Return the user of a request.

    Raises:
        Forbidden: the request has the token of the one-password login, which is nobody's.
    """
    person = guard.person_of(request)
    if person is None or person.user is None:
        raise Forbidden("This token belongs to no user.", hint="Sign in as a user to see an account.")
    return User.objects.get(pk=person.user)


def _page(request: HttpRequest, form: PasswordChangeForm, status: int = 200) -> HttpResponse:
    context = {"form": form, "person": guard.person_of(request), "changed": request.GET.get("changed", "")}
    return render(request, PAGE, context, status=status)
