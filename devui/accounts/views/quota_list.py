"""The page of all quotas and what everybody has used of them today, and the form of one."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from devui.accounts import quotas, users
from devui.accounts.forms import QuotaForm
from devui.accounts.models import Quota
from sessions_app.http import note_object, redirect_to, render_partial
from sessions_app.prices import current_prices
from sessions_app.sessions import overview
from sessions_app.store.errors import AlreadyExists, BadInput, NotFound

PAGE = "devui/accounts/quotas.html"
FORM = "devui/accounts/quota_form.html"

MAX_LISTED = 100
"""Maximum number of persons that the page lists."""


def quota_list(request: HttpRequest) -> HttpResponse:
    """Show all quotas, and what each person has used today."""
    rows = quotas.list_quotas()
    uses = quotas.find_uses_by_person(rows)
    context = {
        "quotas": [(quota, quotas.describe(quota.person, quota.app)) for quota in rows],
        "persons": uses[:MAX_LISTED],
        "omitted": len(uses) - len(uses[:MAX_LISTED]),
        "currency": current_prices().currency,
    }
    return render(request, PAGE, context)


def new(request: HttpRequest) -> HttpResponse:
    """Show the form of a new quota; on POST create it."""
    return _edit_quota(request, QuotaForm(request.POST or None), None)


def change(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the limits of a quota; on POST set them.

    Raises:
        NotFound: there is no such quota.
    """
    quota = quotas.find_quota(pk)
    limits = {name: getattr(quota, name) for name in quotas.LIMITS}
    initial = {name: str(value) for name, value in limits.items() if value is not None}
    return _edit_quota(request, QuotaForm(request.POST or None, initial=initial), quota)


def remove(request: HttpRequest, pk: int) -> HttpResponse:
    """Remove a quota.

    Raises:
        NotFound: there is no such quota.
    """
    quota = quotas.find_quota(pk)
    note_object(request, quotas.describe_change(quota.person, quota.app), app=quota.app)
    quotas.remove_quota(quota.person, quota.app)
    return redirect("quotas")


def _edit_quota(request: HttpRequest, form: QuotaForm, quota: Quota | None) -> HttpResponse:
    """Save a valid form, else show it. `quota`: the one that it changes."""
    if form.is_valid():
        values = form.cleaned_data
        person, app = (quota.person, quota.app) if quota else (values["person"], values["app"])
        note_object(request, quotas.describe_change(person, app, form.limits), app=app)
        try:
            if quota is None:
                quotas.create_quota(person, app, form.limits)
            else:
                quotas.set_quota(person, app, form.limits)
        except (AlreadyExists, BadInput, NotFound) as error:
            field = "person" if isinstance(error, NotFound) and quota is None else None
            form.add_error(field, f"{error.message} {error.hint}")
        else:
            return redirect_to(request, reverse("quotas"))
    context = {
        "form": form,
        "quota": quota,
        "users": [] if quota else users.list_names(),
        "apps": [] if quota else overview.app_names(),
        "currency": current_prices().currency,
    }
    status = 422 if form.is_bound else 200
    return render_partial(request, FORM, context, partial="form", target="dialog-content", status=status)
