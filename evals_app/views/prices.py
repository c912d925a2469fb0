"""Page of the prices of models, and the form of the price file."""

from __future__ import annotations

import contextlib

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from evals_app.analysis import model_prices
from evals_app.files import price_editing
from evals_app.files.atomic_writes import FileChanged, text_digest
from sessions_app.http import note_object
from sessions_app.prices import NAME, current_prices, find_price_path, price_folders
from sessions_app.prices.list_prices import read_list_source
from sessions_app.store.errors import DevUIError


def prices(request: HttpRequest) -> HttpResponse:
    """Show the prices in use, and which models have none; on POST store the text of the price file."""
    if request.method != "POST":
        return _render_prices(request)
    text = request.POST.get("text", "").replace("\r\n", "\n")
    note_object(request, NAME)
    try:
        price_editing.save_price_file(find_price_path(), text, request.POST.get("seen", ""))
    except DevUIError as error:
        return _render_prices(request, text, error)
    return redirect("prices")


def _render_prices(
    request: HttpRequest, text: str | None = None, error: DevUIError | None = None
) -> HttpResponse:
    """Render the page. `text`: what was to be stored, and `error`: why it was not.

    If the file has changed meanwhile, its text is shown beside what was written: saving again replaces it.
    """
    table, path = current_prices(), find_price_path()
    models = model_prices.models_in_use(table)
    stored = ""
    with contextlib.suppress(DevUIError):
        stored = price_editing.read_price_file(path)
    has_changed = isinstance(error, FileChanged)
    seen = "" if has_changed else request.POST.get("seen", "")
    context = {
        "table": table,
        "path": path,
        "folders": price_folders(),
        "name": NAME,
        "models": models,
        "missing": model_prices.missing_entries(models),
        "source": read_list_source(),
        "text": stored if text is None else text,
        "seen": seen or text_digest(stored),
        "text_now": stored if has_changed else None,
        "error": error,
    }
    return render(request, "devui/prices.html", context, status=error.status if error else 200)
