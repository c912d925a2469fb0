"""Create a session by hand, or continue the active one."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from sessions_app.agents.folder import find_initial_state, initial_state_fault
from sessions_app.external import session_creation
from sessions_app.forms.sessions import DEFAULT_USER, NewSessionForm
from sessions_app.http import note_object, redirect_to, render_partial, wants_partial
from sessions_app.paths import session_url
from sessions_app.sessions import overview
from sessions_app.store.errors import AlreadyExists, BadInput, RuntimeUnavailable
from sessions_app.store.ids import is_storable
from sessions_app.store.models import AgentSession
from sessions_app.store.sessions import active_session

PAGE = "devui/sessions/new.html"
FACTS = "session-facts"


def new(request: HttpRequest) -> HttpResponse:
    """Show the form; on POST create a session or open the active one.

    The part `session-facts` shows the initial state and the active session of the form's app and user.
    """
    initial = {"app": request.GET.get("app", ""), "user": request.GET.get("user", DEFAULT_USER)}
    form = NewSessionForm(request.POST or None, initial=initial)
    if wants_partial(request, FACTS):
        return render(request, f"{PAGE}#facts", {**_app_facts(**initial), "form": form})
    if form.is_valid():
        try:
            session = _open_session(form.cleaned_data)
        except (AlreadyExists, BadInput, RuntimeUnavailable) as error:
            form.add_error(None, f"{error.message} {error.hint}")
        else:
            note_object(request, session.pk)
            return redirect_to(request, session_url(session))
    facts = _app_facts(form["app"].value() or "", form["user"].value() or "")
    context = {"form": form, "apps": overview.app_names(), **facts}
    status = 422 if form.is_bound else 200
    return render_partial(request, PAGE, context, partial="form", target="dialog-content", status=status)


def _app_facts(app: str, user: str) -> dict[str, Any]:
    """Return the app's initial state, or why its file cannot be used, and the user's active session."""
    can_look_up = bool(app) and is_storable(app, user)
    return {
        "seed": find_initial_state(app),
        "seed_fault": initial_state_fault(app),
        "active": active_session.find_active(app, user) if can_look_up else None,
    }


def _open_session(values: dict[str, Any]) -> AgentSession:
    is_continued = values["how"] == "continue"
    ids = (values["app"], values["user"], values["session_id"])
    return session_creation.open_session(
        *ids, values["state"], seeded=values["seeded"], continued=is_continued
    )
