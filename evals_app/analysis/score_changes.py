"""Comparison of the scores of two runs by metric; finds changes that stay on one side of the threshold. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from evals_app.analysis import statistics
from evals_app.analysis.outcomes import CaseKey

ScoresByMetric = Mapping[str, Mapping[CaseKey, float]]
"""Mean score of each case over its repetitions, by metric."""


@dataclass(frozen=True)
class ScoreChange:
    """Scores of one metric in both runs, over the cases that have one in both.

    `probability` is that of the paired permutation test, adjusted for the number of metrics (Holm's method).
    """

    metric: str
    cases: int
    before: float
    after: float
    probability: float
    level: float

    @property
    def difference(self) -> float:
        """Mean score after minus before."""
        return self.after - self.before

    @property
    def is_significant(self) -> bool:
        """Tell whether chance alone would seldom do this."""
        return self.probability <= self.level

    @property
    def is_worse(self) -> bool:
        """Tell whether scores fell, and not by chance."""
        return self.is_significant and self.difference < 0

    @property
    def is_better(self) -> bool:
        """Tell whether scores rose, and not by chance."""
        return self.is_significant and self.difference > 0


def compare_scores(before: ScoresByMetric, after: ScoresByMetric, level: float) -> list[ScoreChange]:
    """Compare the scores of two runs by a paired test: each case is its own control.

    Args:
        before, after: scores of the comparable cases of both runs.
        level: significance level of all metrics together.
    """
    changes = [
        change
        for metric, scores in after.items()
        if (change := _compare_metric(metric, before.get(metric, {}), scores, level))
    ]
    return _adjust_probabilities(changes)


def _compare_metric(
    metric: str, before: Mapping[CaseKey, float], after: Mapping[CaseKey, float], level: float
) -> ScoreChange | None:
    cases = [case for case in after if case in before]
    if not cases:
        return None
    return ScoreChange(
        metric,
        len(cases),
        sum(before[case] for case in cases) / len(cases),
        sum(after[case] for case in cases) / len(cases),
        statistics.sign_flip(after[case] - before[case] for case in cases),
        level,
    )


def _adjust_probabilities(changes: list[ScoreChange]) -> list[ScoreChange]:
    """Return changes with Holm's adjusted probabilities, in the same order."""
    largest, adjusted = 0.0, dict[str, float]()
    for rank, change in enumerate(sorted(changes, key=lambda change: change.probability)):
        largest = max(largest, min(1.0, (len(changes) - rank) * change.probability))
        adjusted[change.metric] = largest
    return [replace(change, probability=adjusted[change.metric]) for change in changes]
