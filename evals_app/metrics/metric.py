"""Descriptions of metrics: kind, range, default threshold and options. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from evals_app.metrics.criterion_options import Option

_ENDINGS = ("_avg_score", "_score", "_v1", "_v2")
_PREFIX = "devui_"


class MetricKind(StrEnum):
    """The way in which a metric computes its score."""

    EXACT = "exact"
    JUDGE = "judge"
    RUBRICS = "rubrics"
    SIMULATOR = "simulator"
    VERTEX = "vertex"
    INFORMATIONAL = "informational"
    CUSTOM = "custom"
    OWN = "own"


KIND_DESCRIPTIONS = {
    MetricKind.EXACT: "computed from the expected turn",
    MetricKind.JUDGE: "a model judges",
    MetricKind.RUBRICS: "a model judges by rubrics",
    MetricKind.SIMULATOR: "a model judges the simulated user",
    MetricKind.VERTEX: "Vertex AI judges",
    MetricKind.INFORMATIONAL: "reported, never judged",
    MetricKind.CUSTOM: "your own function",
    MetricKind.OWN: "computed by DevUI",
}


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        low, high: bounds of its score (higher is better); None: unbounded.
        default: the threshold if none is given; None: one must be given.
        options: fields of its criterion besides the threshold.
    """

    name: str
    kind: MetricKind
    description: str
    low: float | None = 0.0
    high: float | None = 1.0
    default: float | None = None
    options: tuple[Option, ...] = ()

    @property
    def uses_judge(self) -> bool:
        """Tell whether the metric uses a judge model."""
        return self.kind in {MetricKind.JUDGE, MetricKind.RUBRICS, MetricKind.SIMULATOR}

    @property
    def label(self) -> str:
        """A short name for column heads."""
        return metric_label(self.name)

    @property
    def how(self) -> str:
        """The way in which the metric computes its score, in words."""
        return KIND_DESCRIPTIONS[self.kind]


def metric_label(name: str) -> str:
    """Return a metric's name as a column head: in words, without its suffix."""
    name = name.removeprefix(_PREFIX)
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return name.replace("_", " ").strip()
