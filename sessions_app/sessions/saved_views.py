"""Saved views: named searches of the session browser."""

from __future__ import annotations

import time
from urllib.parse import parse_qsl, urlencode

from django.db import IntegrityError, transaction

from sessions_app.search.query.parsing import parse
from sessions_app.search.query.scanner import QueryError
from sessions_app.store import scopes
from sessions_app.store.errors import AlreadyExists, BadInput, NotFound
from sessions_app.store.models import SavedView

NAME_LENGTH = 64
MAX_VIEWS = 100

SEARCH_PARAMETERS = ("q", "app", "user", "age", "errors_only", "realm", "sort", "hide")
"""Parameters of the session browser that define a search, its order and its columns."""


def all_views() -> list[SavedView]:
    """Return all views, sorted by name."""
    return list(SavedView.objects.order_by("name")[:MAX_VIEWS])


def search_parameters(query_string: str) -> str:
    """Return the search parameters of a query string in canonical order and spelling."""
    params = {name: value for name, value in parse_qsl(query_string) if name in SEARCH_PARAMETERS}
    if "q" in params:
        params["q"] = _canonical_query(params["q"])
    return urlencode([(name, params[name]) for name in SEARCH_PARAMETERS if name in params])


def _canonical_query(text: str) -> str:
    try:
        return str(parse(text))
    except QueryError:  # stored as written; the page shows the error
        return text.strip()


def save(name: str, query_string: str, *, replace: bool = False) -> SavedView:
    """Save a search under a name.

    Raises:
        BadInput: the name is invalid, or there are too many views.
        AlreadyExists: the name is in use, and `replace` is false.
    """
    cleaned, query, now = _check_name(name), search_parameters(query_string), time.time()
    with transaction.atomic():
        view = SavedView.objects.select_for_update().filter(name=cleaned).first()
        if view is not None:
            if not replace:
                raise _name_taken(cleaned)
            view.query, view.updated_at = query, now
            view.save(update_fields=["query", "updated_at"])
            return view
        if SavedView.objects.count() >= MAX_VIEWS:
            raise BadInput(f"There are already {MAX_VIEWS} views, the maximum.", hint="Delete one first.")
        return _save_row(SavedView(name=cleaned, query=query, created_at=now, updated_at=now))


def rename(pk: int, name: str) -> SavedView:
    """Rename a view.

    Raises:
        NotFound: the view does not exist.
        BadInput: the name is invalid.
        AlreadyExists: the name is in use.
    """
    with transaction.atomic():
        view = SavedView.objects.select_for_update().filter(pk=pk).first()
        if view is None:
            raise NotFound(f"There is no view {pk}.", hint="It may have been deleted; load the page again.")
        view.name, view.updated_at = _check_name(name), time.time()
        return _save_row(view)


def delete(pk: int) -> str:
    """Delete a view; return its name, empty if there was none."""
    view = SavedView.objects.filter(pk=pk).first()
    if view is None:
        return ""
    view.delete()
    return view.name


def _save_row(view: SavedView) -> SavedView:
    try:
        with transaction.atomic():
            view.save()
    except IntegrityError as error:
        raise _name_taken(view.name) from error
    return view


def _check_name(text: str) -> str:
    name = " ".join(scopes.clean_text(text).split())
    if not 0 < len(name) <= NAME_LENGTH:
        raise BadInput(
            f"The name of a view has 1 to {NAME_LENGTH} characters; this one has {len(name)}.",
            hint="Choose another one.",
        )
    return name


def _name_taken(name: str) -> AlreadyExists:
    return AlreadyExists(
        f"A view {name!r} already exists.", hint="Choose another name, or replace that view."
    )
