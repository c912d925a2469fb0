"""Settings of an app: the time to live of its sessions."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render

from sessions_app.forms.sessions import SessionTtlForm
from sessions_app.http import wants_partial
from sessions_app.paths import seg_reverse
from sessions_app.sessions import app_settings, overview
from sessions_app.store.errors import BadInput

FORM = "devui/components/session_ttl.html"


def change(request: HttpRequest, app_name: str) -> HttpResponse:
    """Set the time to live of an app's sessions.

    Raises:
        NotFound: the app is unknown.
        BadInput: the time span is invalid and the request does not come from htmx.
    """
    overview.require_agent(app_name)
    form = SessionTtlForm(request.POST)
    if form.is_valid():
        app_settings.set_session_ttl(app_name, form.cleaned_data["ttl"])
    if wants_partial(request, "session-ttl"):
        context = {"form": form, "app_name": app_name, "saved": form.is_valid()}
        return render(request, FORM, context, status=200 if form.is_valid() else 422)
    if not form.is_valid():
        raise BadInput(
            str(form.errors["ttl"][0]), hint="Go back and enter a time span such as 30d, 12h or 90m."
        )
    return HttpResponseRedirect(seg_reverse("agent", app_name=app_name))
