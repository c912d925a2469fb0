"""Pages of trends: an overview of all figures; a measure over time by group, with an app's code versions compared."""

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
from sessions_app.trends.overview import read_overview
from sessions_app.trends.trend_queries import DAYS, TrendFilter, fit_time, read_trend

PAGE = "devui/trends/trends.html"
OVERVIEW = "devui/trends/overview.html"


class OverviewQuery(QueryForm):
    """Options of the overview; without `days`, the time that has data."""

    app = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    days = forms.ChoiceField(required=False, choices=[(str(days), str(days)) for days in DAYS])


class TrendsQuery(OverviewQuery):
    """Options of the page; without `by`, the usual grouping of the measure."""

    measure = forms.ChoiceField(required=False, choices=[(slug, slug) for slug in MEASURES])
    by = forms.ChoiceField(required=False, choices=[(slug, slug) for slug in GROUPINGS])


def index(request: HttpRequest) -> HttpResponse:
    """Show a measure over time. A grouping that the measure does not have is reported on the page."""
    query = TrendsQuery(request.GET).read()
    measure = MEASURES[query["measure"] or next(iter(MEASURES))]
    context: dict[str, Any] = {
        "query": query,
        "is_part": wants_partial(request, "trends"),
        "apps": overview.app_names(),
        "measures": MEASURES.values(),
        "groupings": GROUPINGS.values(),
        "default_grouping": find_grouping(measure, "", query["app"]),
        "lengths": DAYS,
    }
    try:
        context |= _trend_context(query, measure)
    except BadInput as error:
        context["problem"] = error
    return render_partial(request, PAGE, context, partial="trends")


def overview_page(request: HttpRequest) -> HttpResponse:
    """Show how agents are doing: a small plot of each figure, over a time that fits the data."""
    query = OverviewQuery(request.GET).read()
    charts = read_overview(query["app"], int(query["days"] or 0))
    context = {
        "query": query,
        "apps": overview.app_names(),
        "lengths": DAYS,
        "charts": charts if any(chart.total for chart in charts) else [],
    }
    return render_partial(request, OVERVIEW, context, partial="monitor")


def _trend_context(query: dict[str, Any], measure: TrendMeasure) -> dict[str, Any]:
    grouping = find_grouping(measure, query["by"], query["app"])
    app = query["app"]
    days, since = (int(query["days"]), 0) if query["days"] else fit_time(app)
    trend = read_trend(TrendFilter(measure, grouping, days, app, since))
    return {
        "trend": trend,
        "plots": drawing.build_plots(trend),
        "table": drawing.build_table(trend),
        "groups": [(group, trend.filter.session_query(group.name)) for group in trend.groups],
        "money": f"money {trend.currency}",
        "versions": code_changes.compare_versions(app, days) if app else [],
    }
