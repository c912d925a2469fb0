"""Memory pages: list entries, search as agents do, add sessions, delete entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from asgiref.sync import sync_to_async
from django import forms
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from sessions_app.external import resources
from sessions_app.forms.query import OwnerQuery, SessionIdsForm
from sessions_app.http import note_object, render_partial
from sessions_app.memory import memory_list
from sessions_app.memory.memory_list import MemoryRow
from sessions_app.sessions import overview, storage_location
from sessions_app.store import memory_entries
from sessions_app.store.database import pagination, retry, units_of_work
from sessions_app.store.errors import BadInput, DevUIError
from sessions_app.store.ids import ID_BYTES
from sessions_app.store.models import MemoryEntry
from sessions_app.tables import memory_columns
from sessions_app.tables.table import Arrangement

LIST = "devui/memory/list.html"
DELETE = "devui/memory/delete.html"
MAX_FORGOTTEN = 100
"""Entries that one request deletes."""

FILTERS = ("app", "user", "session", "realm")


class MemoryQuery(OwnerQuery):
    """Filters of the memory list and the search text."""

    realm = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    q = forms.CharField(required=False, max_length=1_000)
    added = forms.IntegerField(required=False, min_value=0)


def index(request: HttpRequest) -> HttpResponse:
    """Show memory entries, or what an agent would recall for the search text."""
    context = _page_context(request, MemoryQuery(request.GET).read())
    return render_partial(request, LIST, context, partial="memory")


def _page_context(request: HttpRequest, query: Mapping[str, Any]) -> dict[str, Any]:
    """Return the page's context for a query."""
    table = memory_columns.TABLE.arrange(request)
    can_search = bool(query["app"] and query["user"])
    return {
        "query": query,
        "is_filtered": any(query[name] for name in FILTERS),
        "can_search": can_search,
        "most": memory_entries.MAX_RESULTS,
        "apps": overview.app_names(),
        "elsewhere": (where := storage_location.find_memory_owner(query["app"])),
        "there": _external_url(query) if where and not query["realm"] else "",
        **(_search_context(table, query) if query["q"] and can_search else _list_context(table, query)),
    }


def csv_file(request: HttpRequest) -> HttpResponse:
    """Download the matching entries as CSV, in the order and with the columns of the list."""
    table = memory_columns.TABLE.arrange(request)
    batches = pagination.read_batches(_filter_entries(MemoryQuery(request.GET).read()), table.order)
    return table.csv_response(row for batch in batches for row in memory_list.build_rows(batch))


async def add(request: HttpRequest) -> HttpResponse:
    """Have the app's runtime add a session to its user's memory. The form shows errors."""
    form = SessionIdsForm(request.POST)
    try:
        return await _add_session(request, form)
    except DevUIError as error:
        context = await units_of_work.read(_error_context, request, form, error)
        return render(request, LIST, context, status=error.status)


async def _add_session(request: HttpRequest, form: SessionIdsForm) -> HttpResponse:
    """Add the session that the form names.

    Raises:
        BadInput, NotFound, RuntimeUnavailable: see `resources.add_to_memory`, or the form names no session.
    """
    if not await sync_to_async(form.is_valid)():
        raise BadInput("No session is named.", hint="Name the app, the user and the session id.")
    ids = form.cleaned_data
    note_object(request, ids["user"], ids["session"], app=ids["app"])
    before = await units_of_work.read(_count_entries, ids)
    await resources.add_to_memory(**ids)
    after = await retry.read(_count_entries, ids)
    return redirect(_filtered_url("memory", ids, added=str(after - before)))


def _error_context(request: HttpRequest, form: SessionIdsForm, problem: DevUIError) -> dict[str, Any]:
    """Return the page's context with the sent fields and the error."""
    owner = {name: form.cleaned_data.get(name, "") for name in ("app", "user")}
    fields = {name: str(form.data.get(name, ""))[:ID_BYTES] for name in SessionIdsForm.base_fields}
    return {**_page_context(request, MemoryQuery(owner).read()), "problem": problem, "form_fields": fields}


def delete(request: HttpRequest) -> HttpResponse:
    """Ask for confirmation; on POST delete memory entries for good.

    Raises:
        NotFound: there is no such entry.
        BadInput: no entry is named, too many are, or one belongs to an eval attempt.
    """
    entries = [memory_list.find_removable_entry(pk) for pk in _read_keys(request)]
    back = _owner_url(entries)
    if request.method == "POST":
        _note_entries(request, entries)
        with transaction.atomic():
            for entry in entries:
                owner = memory_entries.make_owner(entry.realm, entry.app_name, entry.user_id)
                memory_entries.remove_entry(owner, entry.entry_id)
        return redirect(back)
    address = reverse("memory-delete", query={"entry": [entry.pk for entry in entries]})
    context = {"rows": memory_list.build_rows(entries), "address": address, "back": back}
    return render_partial(request, DELETE, context, partial="question", target="dialog-content")


def _read_keys(request: HttpRequest) -> list[int]:
    """Return the keys of the entries that an address names.

    Raises:
        BadInput: it names none, too many, or a key is invalid.
    """
    try:
        keys = list(dict.fromkeys(map(pagination.integer_key, request.GET.getlist("entry"))))
    except ValueError as error:
        raise BadInput(
            "The key of a memory entry is not valid.", hint="Select entries in the list."
        ) from error
    if not 0 < len(keys) <= MAX_FORGOTTEN:
        raise BadInput(
            f"1 to {MAX_FORGOTTEN} entries can be forgotten at once.", hint="Select entries in the list."
        )
    return keys


def _owner_url(entries: Sequence[MemoryEntry]) -> str:
    """Return the address of the list of the entries' owner; of all entries if they have several."""
    owners = {(entry.app_name, entry.user_id, entry.realm) for entry in entries}
    values = owners.pop() if len(owners) == 1 else ("", "", "")
    return _filtered_url("memory", dict(zip(("app", "user", "realm"), values, strict=True)))


def _note_entries(request: HttpRequest, entries: Sequence[MemoryEntry]) -> None:
    """Set the entries as the objects of a request, and their app if they have one app."""
    apps = {entry.app_name for entry in entries}
    names = ", ".join(f"{entry.user_id}/{entry.entry_id}" for entry in entries)
    note_object(request, names, app=apps.pop() if len(apps) == 1 else "")


def _external_url(query: Mapping[str, Any]) -> str:
    """Return the URL of the search in an external memory service; empty without a complete search."""
    parameters = {name: query[name] for name in ("app", "user", "q")}
    return reverse("memory-there", query=parameters) if all(parameters.values()) else ""


def _search_context(table: Arrangement[MemoryRow], query: Mapping[str, Any]) -> dict[str, Any]:
    owner = memory_entries.make_owner(query["realm"], query["app"], query["user"])
    matches = memory_entries.search(owner, query["q"], memory_entries.MAX_RESULTS)
    ranked, page = replace(table, is_ranked=True), pagination.Page(matches, "", is_first=True)
    return {**ranked.page_context(page, memory_list.build_rows(matches)), "is_search": True}


def _list_context(table: Arrangement[MemoryRow], query: Mapping[str, Any]) -> dict[str, Any]:
    page = pagination.paginate(_filter_entries(query), table.order, query["before"], is_counted=True)
    return table.page_context(page, memory_list.build_rows(page.rows))


def _filter_entries(query: Mapping[str, Any]) -> QuerySet[MemoryEntry]:
    return memory_list.filter_entries(query["realm"], query["app"], query["user"], query["session"])


def _count_entries(ids: Mapping[str, str]) -> int:
    return memory_list.filter_entries("", ids["app"], ids["user"], ids["session"]).count()


def _filtered_url(route: str, query: Mapping[str, Any], **more: str) -> str:
    filters = {name: query[name] for name in FILTERS if query.get(name)}
    return reverse(route, query=filters | more)
