"""Pages of an evalset's trend and of prices."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evals_app.analysis import model_prices, trends
from evals_app.files import library
from sessions_app import prices as price_names
from sessions_app.http import render_partial


@require_safe
def trend(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponse:
    """Show how the runs of an evalset went, the newest ones, and what changed in between.

    Raises:
        NotFound: no evalset has this app and id.
    """
    evalset = library.find_evalset(app_name, evalset_id)
    context = {"evalset": evalset, "trend": trends.trend_of(evalset, request.GET.get("page", ""))}
    return render_partial(request, "devui/evals/trend.html", context, partial="histories")


@require_safe
def prices(request: HttpRequest) -> HttpResponse:
    """Show which file of prices is used, what it says, and which models have none."""
    table = price_names.current_prices()
    context = {
        "table": table,
        "folders": price_names.price_folders(),
        "name": price_names.NAME,
        "models": model_prices.models_of_runs(table),
    }
    return render(request, "devui/evals/prices.html", context)
