"""The list of sessions, and making one."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from devui.http import render_partial, wants_partial
from sessions_app import (
    deletion,
    elsewhere,
    expiry,
    keeping,
    keyset,
    labels,
    listing,
    overview,
    saved_views,
    watching,
    writes,
)
from sessions_app.errors import AlreadyExists, BadInput
from sessions_app.forms import NewSession, SessionQuery, SessionWatch
from sessions_app.models import AgentSession
from sessions_app.paths import session_url

LIST = "devui/sessions/list.html"


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Show sessions of all apps and users, newest first."""
    form = SessionQuery(request.GET)
    wanted = form.wanted()
    found = listing.page(wanted, form.cleaned_data["before"])
    newest = max((row.updated_at for row in found.rows), default=0.0)
    since = newest if found.others.is_first else None
    context = {
        "page": found.others,
        "pinned": found.pinned,
        "wanted": wanted,
        "is_filtered": wanted != listing.Wanted(),
        "list": request.get_full_path(),
        "watch": _watch(request, watching.seen(found.rows, _mark), since=since),
        "views": saved_views.all_views(),
        "search": saved_views.query_of(request.GET.urlencode()),
    }
    if not wants_partial(request, "sessions"):
        context |= {"apps": overview.app_names(), "deleted": deletion.recent(), "tags": labels.tags_in_use()}
    return render_partial(request, LIST, context, partial="sessions")


@require_safe
def changes(request: HttpRequest) -> HttpResponse:
    """Answer how a list on screen has changed: its rows, and how many sessions came. 204: it has not."""
    form = SessionWatch(request.GET)
    wanted = form.wanted()
    shown, since, told = (form.cleaned_data[name] for name in ("shown", "since", "told"))
    seen = watching.parse(shown, keyset.integer_key)
    rows = listing.shown_again(seen.marks)
    changed, gone = seen.changed(rows, _mark), seen.gone(rows)
    arrived = 0 if since is None else listing.arrived(wanted, since, seen.marks)
    if not changed and not gone and arrived == (told or 0):
        return HttpResponse(status=204)
    context = {
        "changed": changed,
        "gone": gone,
        "arrived": arrived,
        "many": listing.MOST_ARRIVED,
        "is_first_row": bool(arrived and not seen.marks),
        "watch": _watch(request, seen.after(changed, gone, _mark), since=since, told=arrived),
        "list": _address("sessions", request),
    }
    return render(request, LIST + "#watch", context)


def _mark(session: AgentSession) -> str:
    status = getattr(session, "run_status", None)
    tags = [tag.name for tag in session.tags.all()]
    is_pinned = session.pinned_at is not None
    return watching.mark_of(session.revision, session.title, status, expiry.age_of(session), is_pinned, *tags)


def _watch(request: HttpRequest, seen: watching.Seen[Any], *, since: float | None, told: int = 0) -> str:
    """Return where a list asks how it has changed. Without `since` it does not hear of new sessions."""
    counting = {} if since is None else {"since": repr(since), "told": str(told)}
    return _address("session-changes", request, shown=str(seen), **counting)


def _address(route: str, request: HttpRequest, **more: str) -> str:
    """Return the address of a route with the request's filters."""
    query = request.GET.copy()
    for name in ("before", "shown", "since", "told"):
        query.pop(name, None)
    query.update(more)
    return f"{reverse(route)}?{query.urlencode()}".removesuffix("?")


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Show the form of a new session; make one and go to it."""
    form = NewSession(request.POST or None, initial={"app": request.GET.get("app", ""), "user": "user"})
    if form.is_valid():
        try:
            return HttpResponseRedirect(_create(form.cleaned_data))
        except (AlreadyExists, BadInput) as error:
            form.add_error(None, f"{error.message} {error.hint}")
    context = {"form": form, "apps": overview.app_names()}
    status = 422 if form.is_bound else 200
    return render_partial(
        request, "devui/sessions/new.html", context, partial="form", target="dialog-content", status=status
    )


def _create(values: dict[str, Any]) -> str:
    key = writes.SessionKey("", values["app"], values["user"], values["session_id"] or str(uuid.uuid4()))
    create = elsewhere.create_session if keeping.elsewhere() else writes.create_session
    session = create(key, values["state"])
    return session_url(session)
