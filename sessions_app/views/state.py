"""Shared state of apps and users, key history, and a session's drift."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from sessions_app.forms.state import HistoryQuery, JsonPieceQuery, StateQuery, WholeValueQuery
from sessions_app.http import json_text, render_partial
from sessions_app.lookup import find_session
from sessions_app.presentation import json_tree
from sessions_app.search.query.parsing import parse
from sessions_app.sessions import listing, overview
from sessions_app.state import shared_state
from sessions_app.state.key_changes import truncate
from sessions_app.state.key_history import read_key_history
from sessions_app.store import realms
from sessions_app.store.errors import BadInput, NotFound
from sessions_app.store.models import AgentSession, Scope, StateChange
from sessions_app.store.state import drift, history

PAGE = "devui/sessions/state/scopes.html"
VALUE = "devui/sessions/state/value.html"
SESSIONS_SHOWN = 20
DRIFT_SHOWN, DRIFT_VALUE = 100, 400
"""Maximum number of keys, and of characters of a value."""


def index(request: HttpRequest) -> HttpResponse:
    """Show the state and newest sessions of an app or of its user. Without an app, list apps to choose from."""
    query = StateQuery(request.GET).read()
    app, user = query["app"], query["user"]
    context: dict[str, Any] = {"app": app, "user": user, "apps": overview.app_names(), **_search(query)}
    if not app:
        choices = (
            {"apps_of_user": shared_state.list_user_apps(user)}
            if user
            else {"owners": shared_state.apps_with_state()}
        )
        return render(request, PAGE, {**context, **choices})
    boards = [shared_state.app_keys(app, query["after_app"])]
    if user:
        boards.insert(0, shared_state.user_keys(app, user, query["after_user"]))
    users, are_more = shared_state.users_with_state(app)
    return render(
        request,
        PAGE,
        {
            **context,
            "is_known": app in context["apps"] or bool(users) or any(board.owner for board in boards),
            "boards": boards,
            "most_counted": history.WRITES_COUNTED,
            "users": users,
            "are_more_users": are_more,
            "sessions": listing.list_newest_sessions(app, user)[:SESSIONS_SHOWN],
        },
    )


def _search(query: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shared keys that a query finds, or why it finds none."""
    text = query["q"].strip()
    try:
        return {
            "state_query": text,
            "found": shared_state.find_keys(parse(text), query["app"], query["user"]) if text else None,
        }
    except BadInput as problem:
        return {"state_query": text, "problem": problem}


def key_history(request: HttpRequest, pk: int) -> HttpResponse:
    """Show every write of the key that the ledger row `pk` wrote, newest first."""
    change = _find_change(pk, with_value=False)
    query = HistoryQuery(request.GET).read()
    only_session = query["here"]
    came_from = only_session if query["session"] is None else query["session"]
    context = {
        "change": change,
        "session": _reading_session(change, came_from),
        "history": read_key_history(change, before=query["before"], here=only_session),
        "here": only_session,
        "is_shared": change.scope != Scope.SESSION,
    }
    return render_partial(
        request, "devui/sessions/state/key_history.html", context, partial="history", target="dialog-content"
    )


def session_drift(request: HttpRequest, pk: int) -> HttpResponse:
    """Show drift: keys whose stored value nothing explains, and keys explained by something other than events.

    Raises:
        SessionMissing: no such session.
    """
    session = find_session(pk)
    report = drift.find_drift(session, most=DRIFT_SHOWN)
    first_entries = drift.DriftReport(
        [*report.drifts, *report.explained_drifts][:DRIFT_SHOWN], report.untracked
    )
    context = {
        "session": session,
        "drifted": first_entries.drifts,
        "explained": first_entries.explained_drifts,
        "hidden": max(0, len(report.keys) - DRIFT_SHOWN),
        "unread": report.unread,
        "foreign": sum(entry.why == drift.DriftCause.FOREIGN for entry in report.keys),
        "untracked": [
            (row, truncate(row.stored, DRIFT_VALUE), truncate(row.value, DRIFT_VALUE))
            for row in report.untracked
        ],
        "untracked_unlisted": report.untracked_count - len(report.untracked),
    }
    return render_partial(
        request, "devui/sessions/state/drift.html", context, partial="drift", target="dialog-content"
    )


def value(request: HttpRequest, pk: int) -> HttpResponse:
    """Return a piece of the value that the ledger row `pk` wrote."""
    query = JsonPieceQuery(request.GET).read()
    change = _find_change(pk)
    piece = json_tree.render_piece(
        json.loads(change.value or "null"), query["pointer"], offset=query["offset"] or 0, url=request.path
    )
    return HttpResponse(piece)


def whole_value(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the value that the ledger row `pk` wrote as an expanded tree, or return it as JSON."""
    change = _find_change(pk)
    if WholeValueQuery(request.GET).read()["form"] == "json":
        return json_text(change.value or "null")
    tree = json_tree.render_all(json.loads(change.value or "null"))
    context = {
        "change": change,
        "app_name": change.session.app_name if change.session else "",
        "tree": tree,
        "size": len((change.value or "").encode()),
    }
    return render(request, VALUE, context)


def _reading_session(change: StateChange, pk: int | None) -> AgentSession | None:
    """Return session `pk` if it reads the written key, else the session that wrote it."""
    if pk is None:
        return change.session
    session = realms.exclude_hidden(AgentSession.objects.filter(pk=pk)).first()
    reads = session is not None and history.owners_at(session).ids.get(Scope(change.scope)) == change.owner_id
    return session if reads else change.session


def _find_change(pk: int, *, with_value: bool = True) -> StateChange:
    left_out = ("private",) if with_value else ("private", "value")
    change = StateChange.objects.filter(pk=pk).select_related("session").defer(*left_out).first()
    if change is None:
        raise NotFound(
            f"The ledger has no row {pk}.", hint="Its session may have been deleted; load the page again."
        )
    return change
