"""Page of the prices of models."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from evals_app.analysis import model_prices
from sessions_app.prices import NAME, current_prices, price_folders


def prices(request: HttpRequest) -> HttpResponse:
    """Show which file of prices is used, what it says, and which models have none."""
    table = current_prices()
    models = model_prices.models_in_use(table)
    context = {
        "table": table,
        "folders": price_folders(),
        "name": NAME,
        "models": models,
        "missing": model_prices.missing_entries(models),
    }
    return render(request, "devui/prices.html", context)
