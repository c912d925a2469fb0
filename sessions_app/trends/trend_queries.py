"""Queries of trends: the largest groups of a measure, and their figures over time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Min, QuerySet, Sum

from sessions_app.prices import Prices, current_prices
from sessions_app.search.query.terms import Field, Query
from sessions_app.store.database.skip_scan import distinct_values
from sessions_app.store.models import TrendBucket
from sessions_app.trends.measures import Dimension, Figures, Grouping, PricedTotals, Source, TrendMeasure
from sessions_app.trends.rollup import DAY, HOUR, Totals

GROUPS = 6
"""Groups that are shown: one for each distinguishable color."""

DAYS = (2, 7, 30, 90)
"""Possible lengths of a trend. Two days are shown by hour."""

DEFAULT_DAYS = 30
LEAST_STEPS = 12
"""Least hours or days of a trend that fits the data."""

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TrendFilter:
    """Measure, groups, time and app of a trend. An empty app means all apps.

    `since`: the time before which there is no data, so that it is not shown.
    """

    measure: TrendMeasure
    grouping: Grouping
    days: int
    app: str = ""
    since: int = 0

    @property
    def hourly(self) -> bool:
        """True for a trend by hour. Users are counted by day only."""
        return self.days == DAYS[0] and self.grouping.dimension != Dimension.USER

    @property
    def step(self) -> int:
        """Seconds from one point to the next."""
        return HOUR if self.hourly else DAY

    def starts(self, now: float) -> range:
        """Return the starts of the hours or days, up to the current one."""
        end = int(now // self.step * self.step) + self.step
        since = min(self.since // self.step * self.step, end - LEAST_STEPS * self.step)
        return range(max(end - self.days * DAY, since), end, self.step)

    def time_label(self, start: int) -> str:
        """Return the name of an hour or day."""
        time_utc = datetime.fromtimestamp(start, UTC)
        day = f"{time_utc:%b} {time_utc.day}"
        return f"{day}, {time_utc:%H}:00" if self.hourly else day

    def session_query(self, group: str, start: int | None = None) -> str:
        """Return the search for the sessions of a group, if `start` is given those of that hour or day."""
        terms = {"app": self.app, self.grouping.term: group}
        if start is not None:
            form = "%Y-%m-%dT%H" if self.hourly else "%Y-%m-%d"
            terms["during"] = datetime.fromtimestamp(start, UTC).strftime(form)
        return str(Query(tuple(Field(name, value) for name, value in terms.items() if value)))


@dataclass(frozen=True, slots=True)
class Group:
    """A group with its figures for the whole time and by start of the hour or day. `label`: its display name."""

    name: str
    label: str
    figures: Figures
    points: dict[int, Figures]


@dataclass(frozen=True, slots=True)
class Trend:
    """A measure over time. `has_more`: there are smaller groups, which are not shown."""

    filter: TrendFilter
    starts: range
    groups: list[Group]
    has_more: bool
    currency: str

    @property
    def unit(self) -> str:
        """Unit of the values; money has the currency with it."""
        unit = self.filter.measure.unit
        return f"money {self.currency}" if unit == "money" else unit


def fit_time(app: str, now: float | None = None) -> tuple[int, int]:
    """Return the shortest length of a trend that has everything recorded in the longest one, and when that begins.

    At most two queries.
    """
    time_now = time.time() if now is None else now
    rows = bucket_rows(Source.INVOCATION, Dimension.ALL, hourly=True, app=app)
    oldest = rows.filter(start__gte=time_now - DAYS[-1] * DAY).aggregate(start=Min("start"))["start"]
    if oldest is None:
        return DEFAULT_DAYS, 0
    steps = {days: HOUR if days == DAYS[0] else DAY for days in DAYS}
    fitting = (days for days, step in steps.items() if oldest >= time_now // step * step + step - days * DAY)
    return next(fitting, DAYS[-1]), oldest


def read_trend(criteria: TrendFilter, now: float | None = None) -> Trend:
    """Return a trend. Two queries; a third one for all apps."""
    starts = criteria.starts(time.time() if now is None else now)
    rows, grouping = _matching_buckets(criteria, starts), criteria.grouping
    names = _largest_groups(rows, grouping)
    prices = current_prices()
    shown_rows = rows.filter(**{f"{grouping.column}__in": names[:GROUPS]})
    groups = build_groups(
        shown_rows, grouping.column, names[:GROUPS], prices, is_code=grouping.slug == "code"
    )
    return Trend(criteria, starts, groups, len(names) > GROUPS, prices.currency)


def code_label(version: str, revision: str) -> str:
    """Return the short name of a code version: its git revision, with a + and the hash if files were changed."""
    if not revision:
        return version[:7] or UNKNOWN
    return f"{revision[:7]}+ {version[:7]}" if revision.endswith("+") else revision[:7]


def bucket_apps(
    *, hourly: bool, measure: str = Source.INVOCATION, dimension: str = Dimension.ALL
) -> list[str]:
    """Return the apps with buckets of a measure and dimension. One query."""
    conditions = {"measure": str(measure), "dimension": str(dimension), "hourly": hourly}
    return distinct_values(TrendBucket._meta.db_table, "app_name", conditions)


def bucket_rows(measure: str, dimension: str, *, hourly: bool, app: str) -> QuerySet[TrendBucket]:
    """Return the buckets of a measure and dimension. Without an app, all apps are named, so that the index is used."""
    apps = [app] if app else bucket_apps(hourly=hourly, measure=measure, dimension=dimension)
    rows = TrendBucket.objects.filter(measure=measure, dimension=dimension, hourly=hourly, app_name__in=apps)
    return rows.order_by()


def build_groups(
    rows: Iterable[TrendBucket], column: str, names: Iterable[str], prices: Prices, *, is_code: bool = False
) -> list[Group]:
    """Return a group for each of these values of a column of buckets. `is_code`: the values are code versions."""
    points: defaultdict[str, defaultdict[int, PricedTotals]] = defaultdict(lambda: defaultdict(PricedTotals))
    group_totals: defaultdict[str, PricedTotals] = defaultdict(PricedTotals)
    for row in rows:
        name, totals = getattr(row, column), Totals.of(row)
        points[name][row.start].add(row.start, row.name, totals)
        group_totals[name].add(row.start, row.name, totals)
    return [
        Group(
            name,
            (code_label(name, group_totals[name].totals.label) if is_code else name) or UNKNOWN,
            Figures.of(group_totals[name], prices),
            {start: Figures.of(point, prices) for start, point in sorted(points[name].items())},
        )
        for name in names
    ]


def _matching_buckets(criteria: TrendFilter, starts: range) -> QuerySet[TrendBucket]:
    measure, dimension = criteria.measure.source, criteria.grouping.dimension
    rows = bucket_rows(measure, dimension, hourly=criteria.hourly, app=criteria.app)
    return rows.filter(start__gte=starts.start, start__lt=starts.stop)


def _largest_groups(rows: QuerySet[TrendBucket], grouping: Grouping) -> list[str]:
    """Return the largest groups, of code versions the newest; one more than `GROUPS` if there are more."""
    newest_first = grouping.dimension == Dimension.CODE
    ranked = rows.values_list(grouping.column).annotate(
        rank=Min("first_at") if newest_first else Sum("count")
    )
    return [name for name, _ in ranked.order_by("-rank", grouping.column)[: GROUPS + 1]]
