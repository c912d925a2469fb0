"""The page of a user's own account: role, quotas, password and tokens."""

from __future__ import annotations

from functools import partial

from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters

from devui.accounts import guard, logins, personal_tokens, quotas, users
from devui.accounts.forms import TokenForm
from devui.web.login import throttling
from sessions_app.http import note_object, wants_partial
from sessions_app.prices import current_prices
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import AlreadyExists, Forbidden

PAGE = "devui/accounts/account.html"


async def account(request: HttpRequest) -> HttpResponse:
    """Show the user's role, quotas, password form and tokens."""
    user = await units_of_work.read(guard.request_user, request)
    return await units_of_work.read(_render_account, request, user, PasswordChangeForm(user))


@sensitive_post_parameters()
async def change_password(request: HttpRequest) -> HttpResponse:
    """Change the user's password. That ends all other logins of the user.

    Raises:
        Forbidden: a token sends the request.
        TooManyAttempts: the address tries too many passwords.
    """
    user = await units_of_work.read(guard.request_user, request)
    if guard.has_token(request):
        raise Forbidden("A token cannot change a password.", hint="Sign in in a browser, at /login/.")
    form = PasswordChangeForm(user, request.POST)
    is_changed = await throttling.throttle.attempt(
        partial(_set_password, form), request.META.get("REMOTE_ADDR", ""), user.username
    )
    if not is_changed:
        return await units_of_work.read(_render_account, request, user, form, 422)
    value = await units_of_work.write(_save_password, user)
    response = HttpResponseRedirect(f"{reverse('account')}?changed=password", status=303)
    logins.set_cookie(request, response, value)
    return response


async def create_token(request: HttpRequest) -> HttpResponse:
    """Create a token, and show it this once."""
    user = await units_of_work.read(guard.request_user, request)
    form = TokenForm(request.POST, max_role=guard.highest_role(request))
    text = ""
    if form.is_valid():
        values = form.cleaned_data
        note_object(request, values["name"])
        try:
            text, _ = await units_of_work.write(
                personal_tokens.create_token,
                user,
                values["name"],
                values["role"],
                values["days"],
                guard.read_token_pk(request),
            )
        except AlreadyExists as error:
            form.add_error("name", f"{error.message} {error.hint}")
        else:
            form = TokenForm(max_role=guard.highest_role(request))
    return await units_of_work.read(_tokens_page, request, user, form, text)


async def revoke_token(request: HttpRequest, pk: int) -> HttpResponse:
    """Revoke a token of the user.

    Raises:
        NotFound: the user has no such token.
    """
    user = await units_of_work.read(guard.request_user, request)
    note_object(request, await units_of_work.write(personal_tokens.revoke_token, user, pk))
    if not request.headers.get("HX-Request"):
        return HttpResponseRedirect(reverse("account"), status=303)
    return await units_of_work.read(
        _tokens_page, request, user, TokenForm(max_role=guard.highest_role(request)), ""
    )


def _set_password(form: PasswordChangeForm) -> bool:
    """Check a form and hash its new password. Return False if the form is invalid. Saves nothing."""
    if form.is_valid():
        form.user.set_password(form.cleaned_data["new_password1"])
    return not form.errors


def _save_password(user: User) -> str:
    users.save_password(user)
    return logins.start_login(user)


def _render_account(
    request: HttpRequest, user: User, form: PasswordChangeForm, status: int = 200, **more: object
) -> HttpResponse:
    context = {
        "form": form,
        "person": guard.request_person(request),
        "changed": request.GET.get("changed", ""),
        "tokens": personal_tokens.list_tokens(user),
        "token_form": TokenForm(max_role=guard.highest_role(request)),
        "quotas": quotas.find_quota_uses(user.username),
        "currency": current_prices().currency,
        **more,
    }
    return render(request, PAGE, context, status=status)


def _tokens_page(request: HttpRequest, user: User, form: TokenForm, text: str) -> HttpResponse:
    """Return the page, or for htmx the part with the tokens. `text`: the new token."""
    status = 422 if form.errors else 200
    if wants_partial(request, "tokens"):
        context = {"tokens": personal_tokens.list_tokens(user), "token_form": form, "new_token": text}
        return render(request, f"{PAGE}#tokens", context, status=status)
    return _render_account(request, user, PasswordChangeForm(user), status, token_form=form, new_token=text)
