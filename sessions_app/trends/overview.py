"""Overview of all invocations: the figures that tell how agents are doing, each as a small plot over time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from sessions_app.prices import current_prices
from sessions_app.store.models import TrendBucket
from sessions_app.trends.drawing import Plot
from sessions_app.trends.measures import GROUPINGS, MEASURES, Dimension, Figures
from sessions_app.trends.trend_queries import Trend, TrendFilter, bucket_apps, build_groups, fit_time

PLOT_HEIGHT = 72.0
LABELS = 2
"""Approximate number of times on the axis of a small plot."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A small plot of a figure. `is_sum`: its values add up and are drawn as bars."""

    plot: Plot
    is_sum: bool

    @property
    def total(self) -> float | None:
        """The figure for the whole time; None: unknown or nothing was recorded."""
        [group] = self.plot.trend.groups
        value: float | None = getattr(group.figures, self.plot.figure)
        return value

    @property
    def figures(self) -> Figures:
        """All figures for the whole time."""
        return self.plot.trend.groups[0].figures


CHARTS = (
    ("invocations", "Invocations", "count", True),
    ("failed-invocations", "Failed invocations", "error_rate", False),
    ("invocation-time", "Median time", "latency", False),
    ("invocation-time", "95th percentile of time", "latency_p95", False),
    ("tokens", "Tokens", "tokens", True),
    ("cost", "Cost", "cost", True),
    ("problems", "Problems", "count", True),
)
"""The plots: slug of the measure whose trend they open, title, attribute of `Figures`, and whether values add up."""


def read_overview(app: str, days: int = 0, now: float | None = None) -> list[Chart]:
    """Return the plots of an app, or of all, over a number of days; 0: over the time that has data.

    One query; one more for all apps, and as many to find the time.
    """
    end = time.time() if now is None else now
    days, since = (days, 0) if days else fit_time(app, end)
    filters = [TrendFilter(MEASURES[slug], GROUPINGS["app"], days, app, since) for slug, *_ in CHARTS]
    starts = filters[0].starts(end)
    prices = current_prices()
    sources = list({criteria.measure.source for criteria in filters})
    rows = _read_buckets(sources, starts, app, hourly=filters[0].hourly)
    groups = dict(zip(sources, build_groups(rows, "measure", sources, prices), strict=True))
    trends = [
        Trend(criteria, starts, [groups[criteria.measure.source]], has_more=False, currency=prices.currency)
        for criteria in filters
    ]
    return [
        Chart(Plot(trend, title, figure, PLOT_HEIGHT, LABELS), is_sum)
        for trend, (_, title, figure, is_sum) in zip(trends, CHARTS, strict=True)
    ]


def _read_buckets(sources: Sequence[str], starts: range, app: str, *, hourly: bool) -> QuerySet[TrendBucket]:
    """Return the buckets of measures without groups. All apps are named, so that the index is used."""
    return TrendBucket.objects.filter(
        measure__in=sources,
        dimension=Dimension.ALL,
        hourly=hourly,
        app_name__in=[app] if app else bucket_apps(hourly=hourly),
        start__gte=starts.start,
        start__lt=starts.stop,
    ).order_by()
