"""Actions on sessions of the list: rename, tag, pin, export, delete, undo; and saved views.

For htmx an action returns only what changes around the list; the list itself polls for changes.
"""

from __future__ import annotations

import json

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse

from sessions_app.forms.lists import SavedViewForm, SessionActionForm
from sessions_app.forms.sessions import SessionTitleForm
from sessions_app.http import (
    download,
    download_page,
    local_address,
    note_object,
    person_name,
    redirect_to,
    render_partial,
)
from sessions_app.lookup import find_session
from sessions_app.sessions import deletion, labels, saved_views, storage_location
from sessions_app.store import realms
from sessions_app.store.errors import AlreadyExists, BadInput
from sessions_app.transfer import exports, html_page

DELETED = "devui/sessions/list/recently_deleted.html"
DELETED_COOKIE = "devui_deleted"
"""Cookie with the id of the batch of a deletion that the list of sessions has not reported yet."""

RENAME = "devui/sessions/rename.html"
VIEWS = "devui/sessions/list/saved_views.html"


def apply_action(request: HttpRequest) -> HttpResponseBase:
    """Tag, pin, delete or export the selected sessions, or one.

    Raises:
        BadInput: no session is selected, or the action is unknown.
        SessionBusy: a run is active on every session to delete.
    """
    verb, pks, tag = SessionActionForm(request.POST).read(request.POST.getlist("session"))
    if verb == "export":
        return _export_sessions(request, pks)
    if verb == "delete":
        return _render_deletion(request, deletion.delete(pks))
    if verb == "tag":
        labels.tag(pks, tag, person=person_name(request))
    elif verb == "untag":
        labels.untag(pks, tag)
    else:
        labels.pin(pks, pinned=verb == "pin", person=person_name(request))
    return _finish_action(request)


def undo(request: HttpRequest, batch: str) -> HttpResponse:
    """Undo a deletion.

    Raises:
        NotFound: the deletion cannot be undone any more.
        AlreadyExists: an id has been reused since.
    """
    deletion.undo(batch)
    if not _is_htmx(request):
        return HttpResponseRedirect(local_address(request.POST.get("next"), reverse("sessions")))
    response = render(request, f"{DELETED}#line", {"deleted": deletion.recent_batches(), "is_swapped": True})
    return _add_triggers(response, "sessions-back")


def export_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Download a session as one HTML page.

    Raises:
        SessionMissing: there is no such session.
    """
    return download_page(html_page.session_html(find_session(pk)), f"session-{pk}")


def rename(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the form of a session's title; on POST rename the session.

    Raises:
        SessionMissing: there is no such session.
    """
    session = find_session(pk)
    form = SessionTitleForm(request.POST or None, initial={"title": session.title})
    if request.method == "POST" and form.is_valid():
        labels.rename(pk, form.cleaned_data["title"], person=person_name(request))
        return _finish_action(request)
    context = {
        "form": form,
        "session": session,
        "next": local_address(request.GET.get("next"), reverse("sessions")),
    }
    return render_partial(
        request, RENAME, context, partial="form", target="dialog-content", status=422 if form.errors else 200
    )


def delete(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask for confirmation; on POST delete a session, which can be undone.

    Raises:
        SessionMissing: there is no such session.
        SessionBusy: a run is active on the session.
    """
    session = find_session(pk)
    if session.realm.startswith(realms.NESTED):
        storage_location.refuse_deletion(session)
    if request.method == "POST":
        return _redirect_after_deletion(request, deletion.delete([pk]))
    context = {
        "session": session,
        "next": local_address(request.GET.get("next"), reverse("sessions")),
        "in_own_realm": realms.is_isolated_fork(session),
    }
    return render_partial(
        request, "devui/sessions/delete.html", context, partial="question", target="dialog-content"
    )


def view_list(request: HttpRequest) -> HttpResponse:
    """Show the saved views and the form to save one; on POST save the current search."""
    form = SavedViewForm(request.POST or None, initial={"query": request.GET.urlencode()})
    problem = None
    if form.is_valid():
        values = form.cleaned_data
        note_object(request, values["name"])
        try:
            view = saved_views.save(values["name"], values["query"], replace=values["replace"])
        except (AlreadyExists, BadInput) as error:
            problem = error
        else:
            return _go_to_list(request, view.query)
    return _render_views(request, form, problem)


def change_view(request: HttpRequest, pk: int) -> HttpResponse:
    """Rename or delete a saved view.

    Raises:
        NotFound: there is no such view.
        AlreadyExists: the name is taken.
    """
    if "delete" in request.POST:
        name = saved_views.delete(pk)
    else:
        name = saved_views.rename(pk, request.POST.get("name", "")).name
    note_object(request, name or pk)
    return _go_to_list(request, saved_views.search_parameters(request.POST.get("query", "")))


def _export_sessions(request: HttpRequest, pks: list[int]) -> HttpResponseBase:
    """Return a download. For htmx only check it and trigger `export-ready`: an error would replace the page."""
    selection = exports.ExportFilter(pks=tuple(pks))
    if _is_htmx(request):
        exports.require_sessions(selection)
        return _add_triggers(HttpResponse(status=204), "export-ready")
    return download(exports.open_export(selection), "sessions.jsonl", exports.CONTENT_TYPE)


def _render_deletion(request: HttpRequest, result: deletion.DeletionResult) -> HttpResponse:
    if not _is_htmx(request):
        return _redirect_after_deletion(request, result)
    context = {"done": result, "deleted": deletion.recent_batches(), "is_swapped": True}
    return _add_triggers(render(request, f"{DELETED}#done", context), "poll")


def _redirect_after_deletion(request: HttpRequest, result: deletion.DeletionResult) -> HttpResponse:
    """Redirect; a cookie makes the list show the message with *Undo*, at an address that stays as it was."""
    response = HttpResponseRedirect(local_address(request.POST.get("next"), reverse("sessions")))
    if result.batch:
        response.set_cookie(
            DELETED_COOKIE,
            result.batch.id,
            max_age=60,
            path=reverse("sessions"),
            secure=request.is_secure(),
            httponly=True,
            samesite="Lax",
        )
    return response


def _render_views(
    request: HttpRequest, form: SavedViewForm, problem: AlreadyExists | BadInput | None
) -> HttpResponse:
    query = saved_views.search_parameters(form["query"].value() or "")
    context = {
        "form": form,
        "problem": problem,
        "is_taken": isinstance(problem, AlreadyExists),
        "views": saved_views.all_views(),
        "query": query,
        "list": f"{reverse('sessions')}?{query}".removesuffix("?"),
    }
    status = 422 if problem or form.errors else 200
    return render_partial(request, VIEWS, context, partial="form", target="dialog-content", status=status)


def _finish_action(request: HttpRequest) -> HttpResponse:
    """Close the dialog and refresh the list (htmx), or redirect."""
    if _is_htmx(request):
        return _add_triggers(HttpResponse(status=204), "poll", "done")
    return HttpResponseRedirect(local_address(request.POST.get("next"), reverse("sessions")))


def _go_to_list(request: HttpRequest, query: str) -> HttpResponse:
    return redirect_to(request, f"{reverse('sessions')}?{query}".removesuffix("?"))


def _add_triggers(response: HttpResponse, *events: str) -> HttpResponse:
    """Trigger events on the page once the response has arrived."""
    response["HX-Trigger"] = json.dumps(dict.fromkeys(events, ""))
    return response


def _is_htmx(request: HttpRequest) -> bool:
    return bool(getattr(request, "htmx", False))
