"""Edit or remove a key of a session's state, with a preview."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote, urlsplit

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from sessions_app.forms.state import KeyEditForm, KeyQuery, KeyRemovalForm
from sessions_app.http import person_name, redirect_to, render_partial, wants_partial
from sessions_app.lookup import find_session
from sessions_app.paths import session_url
from sessions_app.presentation import value_diff, visible_text
from sessions_app.sessions import state_edits, storage_location
from sessions_app.sessions.state_edits import Condition
from sessions_app.store import realms, scopes
from sessions_app.store.errors import DevUIError, NotFound
from sessions_app.store.models import AgentSession, Scope, StateChange
from sessions_app.store.runs import session_runs
from sessions_app.store.state import history

EDIT = "devui/sessions/state/key_edit.html"
REMOVE = "devui/sessions/state/key_remove.html"

EDITED_CHARACTERS = 200_000
"""Maximum length of a value that the form offers for editing."""

Context = dict[str, Any]


def edit(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the form of an existing or a new key; on POST preview or save the change.

    Raises:
        SessionMissing: no such session.
        BadInput: the key is never stored, or the session is an eval attempt.
    """
    session = _find_editable(pk)
    if request.method == "POST":
        return _submit_edit(request, session)
    name = KeyQuery(request.GET).read()["key"]
    is_new = "key" not in request.GET
    scope, key = state_edits.parse_name(name)
    current = None if is_new else history.change_at(session, None, scope, key)
    form = KeyEditForm(initial=_initial_values(scope, key, current))
    return _render_form(request, session, form, scope, current, is_new=is_new)


def remove(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask for confirmation; on POST remove a key.

    Raises:
        SessionMissing: no such session.
        NotFound: the key has no value.
        BadInput: the session is an eval attempt.
    """
    session = _find_editable(pk)
    name = KeyQuery(request.GET).read()["key"]
    scope, key = state_edits.parse_name(name)
    status, problem = 200, None
    if request.method == "POST":
        form = KeyRemovalForm(request.POST)
        position = form.cleaned_data["seen_position"] if form.is_valid() else 0
        try:
            return _finish_edit(
                request,
                session,
                state_edits.remove_key(
                    session.pk, name, Condition(position=position), person=person_name(request)
                ),
            )
        except DevUIError as error:
            status, problem = error.status, error
    current = history.change_at(session, None, scope, key)
    if current is None or current.removed:
        raise NotFound(f"The key {name!r} has no value.", hint="It was removed already; reload the page.")
    context = {
        **_key_context(session, scope, current),
        "name": name,
        "problem": problem,
        "next_seq": session.last_seq + 1,
    }
    return _render_dialog(request, REMOVE, "question", context, status)


def _submit_edit(request: HttpRequest, session: AgentSession) -> HttpResponse:
    is_new = "key" not in request.GET
    form = KeyEditForm(request.POST, is_new=is_new)
    if not form.is_valid():
        scope = Scope(form.cleaned_data.get("scope", Scope.SESSION))
        return _render_form(request, session, form, scope, None, is_new=is_new)
    scope, key = Scope(form.cleaned_data["scope"]), form.cleaned_data["key"]
    problem: DevUIError | None = None
    if form.cleaned_data["step"] == "save":
        condition = Condition(position=form.cleaned_data["seen_position"])
        try:
            edited = state_edits.put_key(
                session.pk, form.name, form.cleaned_data["value"], condition, person=person_name(request)
            )
            return _finish_edit(request, session, edited)
        except DevUIError as error:
            problem = error
    current = history.change_at(session, None, scope, key)
    return _render_form(request, session, form, scope, current, is_new=is_new, problem=problem)


def _render_form(
    request: HttpRequest,
    session: AgentSession,
    form: KeyEditForm,
    scope: Scope,
    current: StateChange | None,
    *,
    is_new: bool,
    problem: DevUIError | None = None,
) -> HttpResponse:
    status = 422 if form.errors else problem.status if problem else 200
    preview = _preview_context(form, current) if form.is_bound and form.is_valid() else None
    name = KeyQuery(request.GET).read()["key"]
    context = {
        **_key_context(session, scope, current),
        "form": form,
        "name": name,
        "is_new": is_new,
        "scopes": [(str(name), scopes.PREFIX[name]) for name in Scope],
        "preview": preview,
        "problem": problem,
        "seen_position": _seen_position(form, current),
        "is_long": current is not None and len(current.value or "") > EDITED_CHARACTERS,
        "is_secret": current is not None and current.private is not None,
        "next_seq": session.last_seq + 1,
    }
    if wants_partial(request, "preview"):
        return render(request, f"{EDIT}#preview-answer", {**context, "is_answer": True}, status=status)
    return _render_dialog(request, EDIT, "form", context, status)


def _render_dialog(
    request: HttpRequest, template: str, partial: str, context: Context, status: int
) -> HttpResponse:
    """Render a dialog's content or its page. htmx swaps errors only with status 422."""
    if wants_partial(request, "dialog-content") and status != 200:
        status = 422
    return render_partial(request, template, context, partial=partial, target="dialog-content", status=status)


def _key_context(session: AgentSession, scope: Scope, current: StateChange | None) -> Context:
    return {
        "session": session,
        "scope": str(scope),
        "current": current,
        "reach": state_edits.count_readers(session, scope),
        "run": session_runs.active_run(session.pk),
        "back": session_url(session),
    }


def _initial_values(scope: Scope, key: str, current: StateChange | None) -> Context:
    """Return initial form values: text as it is if a form field preserves it, other values as indented JSON."""
    values = {"scope": str(scope), "key": key, "kind": "text", "value": ""}
    if current is None or current.removed or len(current.value or "") > EDITED_CHARACTERS:
        return values
    value = json.loads(current.value or "null")
    if isinstance(value, str) and "\r" not in value and visible_text.escape_text(value) == value:
        return {**values, "value": value}
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return {**values, "kind": "json", "value": visible_text.escape_json(text)}


def _seen_position(form: KeyEditForm, current: StateChange | None) -> int:
    """Return the position of the write that the page shows; a form with errors keeps its position."""
    if form.errors:
        return int(form.cleaned_data.get("seen_position", 0))
    return current.position if current else 0


def _preview_context(form: KeyEditForm, current: StateChange | None) -> Context:
    """Return the old and the new value for display, without credentials."""
    old = None if current is None or current.removed else current.value
    new = scopes.canonicalize(form.cleaned_data["value"], form.cleaned_data["key"]).public
    brief = value_diff.is_brief(old, new)
    return {
        "name": form.name,
        "old": old,
        "new": new,
        "is_same": old == new,
        "lines": [] if brief else value_diff.diff_lines(old, new),
    }


def _finish_edit(request: HttpRequest, session: AgentSession, edited: state_edits.StateEdit) -> HttpResponse:
    """Redirect to the event of the change. On the session page close the dialog: the timeline shows the event."""
    address = f"{session_url(session)}?seq={edited.appended.seq}"
    if not wants_partial(request, "dialog-content"):
        return HttpResponseRedirect(address, status=303)
    pages = {session_url(session), reverse("session-by-pk", kwargs={"pk": session.pk})}
    current_path = urlsplit(request.headers.get("HX-Current-URL", "")).path
    if unquote(current_path) in map(unquote, pages):
        return HttpResponse(status=204, headers={"HX-Trigger": "done"})
    return redirect_to(request, address)


def _find_editable(pk: int) -> AgentSession:
    session = find_session(pk)
    realms.refuse_read_only(session)
    storage_location.refuse_copy(session)
    return session
