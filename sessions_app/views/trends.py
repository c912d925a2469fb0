"""Page of trends: a measure over time by group, and the code versions of an app compared."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse

from sessions_app.forms.query import QueryForm
from sessions_app.http import render_partial, wants_partial
from sessions_app.sessions import overview
from sessions_app.store.errors import BadInput
from sessions_app.store.ids import ID_BYTES
from sessions_app.trends import code_changes, drawing
from sessions_app.trends.measures import GROUPINGS, MEASURES, TrendMeasure, find_grouping
from sessions_app.trends.trend_queries import DAYS, DEFAULT_DAYS, TrendFilter, read_trend

PAGE = "devui/trends/trends.html"


class TrendsQuery(QueryForm):
    """Options of the page; without `by`, the usual grouping of the measure."""

    app = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    measure = forms.ChoiceField(required=False, choices=[(slug, slug) for slug in MEASURES])
    by = forms.ChoiceField(required=False, choices=[(slug, slug) for slug in GROUPINGS])
    days = forms.ChoiceField(required=False, choices=[(str(days), str(days)) for days in DAYS])


def index(request: HttpRequest) -> HttpResponse:
    """Show a measure over time. A grouping that the measure does not have is reported on the page."""
    query = TrendsQuery(request.GET).read()
    query["days"] = int(query["days"] or DEFAULT_DAYS)
    measure = MEASURES[query["measure"] or next(iter(MEASURES))]
    context: dict[str, Any] = {
        "query": query,
        "is_part": wants_partial(request, "trends"),
        "apps": overview.app_names(),
        "measures": MEASURES.values(),
        "groupings": GROUPINGS.values(),
        "default_grouping": find_grouping(measure, "", query["app"]),
        "lengths": DAYS,
        "default_days": DEFAULT_DAYS,
    }
    try:
        context |= _trend_context(query, measure)
    except BadInput as error:
        context["problem"] = error
    return render_partial(request, PAGE, context, partial="trends")


def _trend_context(query: dict[str, Any], measure: TrendMeasure) -> dict[str, Any]:
    grouping = find_grouping(measure, query["by"], query["app"])
    trend = read_trend(TrendFilter(measure, grouping, query["days"], query["app"]))
    return {
        "trend": trend,
        "plots": drawing.build_plots(trend),
        "table": drawing.build_table(trend),
        "groups": [(group, trend.filter.session_query(group.name)) for group in trend.groups],
        "money": f"money {trend.currency}",
        "versions": code_changes.compare_versions(query["app"], query["days"]) if query["app"] else [],
    }
