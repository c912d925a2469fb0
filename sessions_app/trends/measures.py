"""Measures and groupings of trends, and the figures of totals. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from sessions_app.prices import Prices
from sessions_app.store.errors import BadInput
from sessions_app.store.events.call_usage import add_tokens
from sessions_app.store.models import TrendBucket
from sessions_app.trends import histogram
from sessions_app.trends.rollup import Totals

Source, Dimension = TrendBucket.Measure, TrendBucket.Dimension

NAME_OF_SOURCE = {Source.MODEL: "model", Source.TOOL: "tool", Source.PROBLEM: "problem"}
"""The grouping by the names of what is counted: the called models or tools, or the codes of problems."""


COUNTED = {
    Source.INVOCATION: "Invocations",
    Source.MODEL: "Calls",
    Source.TOOL: "Calls",
    Source.PROBLEM: "Problems",
}


@dataclass(frozen=True, slots=True)
class TrendMeasure:
    """A measure that the page offers. `figures`: the title of each plot and its attribute of `Figures`."""

    slug: str
    label: str
    source: str
    unit: str
    figures: tuple[tuple[str, str], ...]

    @property
    def counted(self) -> str:
        """Plural of what it counts."""
        return COUNTED[Source(self.source)]


LATENCY = (("Median", "latency"), ("95th percentile", "latency_p95"))
FIRST_TOKEN = (("Median", "first_token"), ("95th percentile", "first_token_p95"))

MEASURES = {
    measure.slug: measure
    for measure in (
        TrendMeasure("invocation-time", "Time of invocations", Source.INVOCATION, "seconds", LATENCY),
        TrendMeasure("invocations", "Invocations", Source.INVOCATION, "number", (("Number", "count"),)),
        TrendMeasure("model-latency", "Latency of model calls", Source.MODEL, "seconds", LATENCY),
        TrendMeasure("first-token", "Time to the first token", Source.MODEL, "seconds", FIRST_TOKEN),
        TrendMeasure("tool-latency", "Latency of tool calls", Source.TOOL, "seconds", LATENCY),
        TrendMeasure(
            "tokens",
            "Tokens",
            Source.MODEL,
            "tokens",
            (("Input", "input_tokens"), ("Output and thoughts", "output_tokens")),
        ),
        TrendMeasure("cost", "Cost", Source.MODEL, "money", (("Cost", "cost"),)),
        TrendMeasure(
            "failed-invocations", "Failed invocations", Source.INVOCATION, "share", (("Share", "error_rate"),)
        ),
        TrendMeasure(
            "failed-models", "Failed model calls", Source.MODEL, "share", (("Share", "error_rate"),)
        ),
        TrendMeasure("failed-tools", "Failed tool calls", Source.TOOL, "share", (("Share", "error_rate"),)),
        TrendMeasure("problems", "Problems", Source.PROBLEM, "number", (("Number", "count"),)),
    )
}


@dataclass(frozen=True, slots=True)
class Grouping:
    """A grouping: the dimension of its buckets, their column with the group, and the search term of a group."""

    slug: str
    label: str
    dimension: str
    column: str
    term: str


GROUPINGS = {
    grouping.slug: grouping
    for grouping in (
        Grouping("app", "App", Dimension.ALL, "app_name", "app"),
        Grouping("agent", "Agent", Dimension.AGENT, "value", "author"),
        Grouping("model", "Model", Dimension.ALL, "name", "model"),
        Grouping("tool", "Tool", Dimension.ALL, "name", "tool"),
        Grouping("problem", "Kind of problem", Dimension.ALL, "name", "problem"),
        Grouping("user", "User", Dimension.USER, "value", "user"),
        Grouping("code", "Code version", Dimension.CODE, "value", "code"),
    )
}


def find_grouping(measure: TrendMeasure, slug: str, app: str) -> Grouping:
    """Return the grouping with a slug.

    Without a slug: by model, tool or problem if the measure is about them; else by app, or by agent within an app.

    Raises:
        BadInput: the measure cannot be grouped so.
    """
    source_name = NAME_OF_SOURCE.get(Source(measure.source), "")
    if slug in NAME_OF_SOURCE.values() and slug != source_name:
        possible = [
            grouping.label.lower()
            for grouping in GROUPINGS.values()
            if grouping.slug in GENERAL or grouping.slug == source_name
        ]
        raise BadInput(
            f"{measure.label} cannot be grouped by {slug}.", hint=f"Group by {', '.join(possible)}."
        )
    return GROUPINGS[slug or source_name or ("agent" if app else "app")]


GENERAL = frozenset(GROUPINGS) - frozenset(NAME_OF_SOURCE.values())
"""Slugs of the groupings that every measure has."""


@dataclass(slots=True)
class PricedTotals:
    """Totals over time and models, with the tokens of each day or hour by model, since prices differ."""

    totals: Totals = field(default_factory=Totals)
    usage: dict[int, dict[str, dict[str, int]]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, start: int, name: str, totals: Totals) -> None:
        """Add the totals of a bucket."""
        self.totals.add(totals)
        if any(totals.tokens.values()):
            add_tokens(self.usage[start].setdefault(name, {}), totals.tokens)

    def cost(self, prices: Prices) -> float | None:
        """Return the cost of the tokens; None if a model has no price, or if there are no tokens."""
        costs = [prices.cost(usage, start) for start, usage in self.usage.items()]
        priced = [cost for cost in costs if cost is not None]
        return sum(priced) if priced and len(priced) == len(costs) else None


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of invocations, calls or problems; None: unknown. Durations are in seconds and at most 5 % off."""

    count: int
    errors: int
    latency: float | None
    latency_p95: float | None
    latency_p99: float | None
    first_token: float | None
    first_token_p95: float | None
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: float | None

    @property
    def tokens(self) -> int:
        """Tokens of input and output."""
        return self.input_tokens + self.output_tokens

    @property
    def error_rate(self) -> float:
        """Share of the invocations or calls that failed."""
        return self.errors / self.count if self.count else 0.0

    @classmethod
    def of(cls, priced: PricedTotals, prices: Prices) -> Figures:
        """Return the figures of totals."""
        totals = priced.totals
        tokens = totals.tokens
        return cls(
            count=totals.count,
            errors=totals.errors,
            latency=histogram.quantile(totals.latency, 0.5),
            latency_p95=histogram.quantile(totals.latency, 0.95),
            latency_p99=histogram.quantile(totals.latency, 0.99),
            first_token=histogram.quantile(totals.first_token, 0.5),
            first_token_p95=histogram.quantile(totals.first_token, 0.95),
            input_tokens=tokens.get("prompt", 0),
            cached_tokens=tokens.get("cached", 0),
            output_tokens=tokens.get("output", 0),
            cost=priced.cost(prices),
        )
