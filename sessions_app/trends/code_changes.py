"""Comparison of each code version of an app with the one before it, with 95 % intervals.

The comparison is observational: questions, models and tools may have changed as well. It assumes that invocations are
independent. The invocations of each version are divided into random samples (`Dimension.SAMPLE`), whose spread gives
the intervals of tokens and cost at any price.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from sessions_app import statistics
from sessions_app.prices import Prices, current_prices
from sessions_app.statistics import Estimate
from sessions_app.trends import histogram
from sessions_app.trends.measures import Dimension, PricedTotals, Source
from sessions_app.trends.rollup import DAY, Totals
from sessions_app.trends.trend_queries import bucket_rows, code_label

VERSIONS = 10
"""Newest code versions that are compared."""

MEASURES = (
    ("Median time", "seconds", "latency"),
    ("Failed", "share", "errors"),
    ("Tokens", "tokens", "tokens"),
    ("Cost", "money", "cost"),
)
"""Values per invocation that are compared: title, unit and name."""


@dataclass(frozen=True, slots=True)
class MeasureComparison:
    """Value of a version. `change`: difference from the version before; None: too few invocations, or unknown."""

    title: str
    unit: str
    name: str
    value: float | None
    change: Estimate | None

    @property
    def is_clear(self) -> bool:
        """True if the interval of the difference does not contain 0."""
        return self.change is not None and not self.change.interval.low <= 0 <= self.change.interval.high


@dataclass(frozen=True, slots=True)
class CodeVersion:
    """A code version and its values, each compared with the version before."""

    version: str
    label: str
    first_at: float
    invocations: int
    comparisons: list[MeasureComparison]


@dataclass(slots=True)
class _VersionTotals:
    """Totals of a code version: of its invocations; of its model calls and number of invocations, by sample."""

    invocations: Totals
    calls_by_sample: Mapping[int, PricedTotals]
    count_by_sample: Mapping[int, int]

    def value(self, name: str, prices: Prices) -> float | None:
        """Return the value per invocation; None if it is unknown."""
        count = self.invocations.count
        if name == "latency":
            return histogram.quantile(self.invocations.latency, 0.5)
        if name == "errors":
            return self.invocations.errors / count
        amounts = self._sample_amounts(name, prices)
        return sum(amount for amount, _ in amounts) / count if amounts else None

    def estimate(self, name: str, prices: Prices) -> Estimate | None:
        """Return the value per invocation with its interval; None for too few invocations, or if it is unknown."""
        count = self.invocations.count
        if name == "latency":
            return histogram.median(self.invocations.latency)
        if name == "errors":
            errors = self.invocations.errors
            return Estimate(errors / count, statistics.wilson(errors, count))
        return statistics.estimate_group_mean(self._sample_amounts(name, prices))

    def _sample_amounts(self, name: str, prices: Prices) -> list[tuple[float, int]]:
        """Return the amount and the number of invocations of each sample; empty if an amount is unknown."""
        if name == "cost" and not any(calls.usage for calls in self.calls_by_sample.values()):
            return []
        amounts = []
        for sample, count in self.count_by_sample.items():
            calls = self.calls_by_sample.get(sample)
            if name == "cost":
                amount = calls.cost(prices) if calls and calls.usage else 0.0
            else:
                tokens = calls.totals.tokens if calls else {}
                amount = float(tokens.get("prompt", 0) + tokens.get("output", 0))
            if amount is None:
                return []
            amounts.append((amount, count))
        return amounts


def compare_versions(app: str, days: int, now: float | None = None) -> list[CodeVersion]:
    """Return the newest code versions of an app, the newest first, each compared with the one before. Two queries."""
    since = int((time.time() if now is None else now) // DAY * DAY) - (days - 1) * DAY
    totals = _read_totals(app, since)
    oldest_first = sorted(totals, key=lambda version: totals[version].invocations.first_at)
    prices = current_prices()
    pairs = pairwise([None, *oldest_first[-VERSIONS - 1 :]])
    versions = [
        CodeVersion(
            version,
            code_label(version, totals[version].invocations.label),
            totals[version].invocations.first_at,
            totals[version].invocations.count,
            list(_compare_measures(totals[before] if before is not None else None, totals[version], prices)),
        )
        for before, version in pairs
        if version is not None
    ]
    return versions[::-1][:VERSIONS]


def _read_totals(app: str, since: int) -> dict[str, _VersionTotals]:
    """Return the totals of the code versions of an app since a day."""
    invocations: defaultdict[str, Totals] = defaultdict(Totals)
    counts: defaultdict[str, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    calls: defaultdict[str, defaultdict[int, PricedTotals]] = defaultdict(lambda: defaultdict(PricedTotals))
    for source in (Source.INVOCATION, Source.MODEL):
        rows = bucket_rows(source, Dimension.SAMPLE, hourly=False, app=app)
        for row in rows.filter(start__gte=since).exclude(value=""):
            totals = Totals.of(row)
            if source == Source.INVOCATION:
                invocations[row.value].add(totals)
                counts[row.value][row.sample] += totals.count
            else:
                calls[row.value][row.sample].add(row.start, row.name, totals)
    return {
        version: _VersionTotals(totals, calls[version], counts[version])
        for version, totals in invocations.items()
    }


def _compare_measures(
    before: _VersionTotals | None, after: _VersionTotals, prices: Prices
) -> Iterator[MeasureComparison]:
    for title, unit, name in MEASURES:
        change = None
        if before is not None:
            estimates = before.estimate(name, prices), after.estimate(name, prices)
            change = _estimate_difference(*estimates)
        unit = f"money {prices.currency}" if unit == "money" else unit
        yield MeasureComparison(title, unit, name, after.value(name, prices), change)


def _estimate_difference(before: Estimate | None, after: Estimate | None) -> Estimate | None:
    return statistics.difference(before, after) if before is not None and after is not None else None
