"""Test of a run as a whole: the passes of all comparable cases against all their earlier outcomes. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, fmean

from evals_app.analysis import statistics
from evals_app.analysis.change_tests import OutcomeTable, at_most_probability_in_all
from evals_app.analysis.dependence import Dependence, OutcomeCounts, UsualRange, effective_total, predict_run
from evals_app.analysis.outcomes import EarlierOutcomes, measure_deviations
from evals_app.analysis.statistics import Effect

DEFAULT_LEVEL = 0.05
"""Chance that two runs of an unchanged agent are called a regression."""
EXACT_TEST = "exact permutation test of all cases"
CLUSTER_TEST = "permutation test of all cases, for dependent repetitions"


@dataclass(frozen=True)
class Whole:
    """Comparison of a run as a whole.

    Attributes:
        cases, worse, better: number of cases compared, and of those whose pass rate fell and rose.
        probability: two-sided; `fell` tells the direction.
        refusal: why there is no verdict; "" if there is one.
        dependence: of outcomes within a run, estimated from earlier runs.
        usual: range of the mean difference in which earlier runs vary; None if there are too few.
        deviation: mean difference of this run, to compare with that range.
    """

    cases: int
    worse: int
    better: int
    probability: float
    fell: bool
    effect: Effect | None
    level: float = DEFAULT_LEVEL
    refusal: str = ""
    test: str = EXACT_TEST
    dependence: Dependence = field(default_factory=Dependence)
    usual: UsualRange | None = None
    deviation: float = 0.0

    @property
    def is_usual(self) -> bool:
        """Tell whether earlier runs vary as much as this one differs from them."""
        return self.usual is not None and self.usual.low <= self.deviation <= self.usual.high

    @property
    def is_improbable(self) -> bool:
        """Tell whether chance alone would seldom do this if runs did not vary."""
        return not self.refusal and self.probability <= self.level

    @property
    def is_significant(self) -> bool:
        """Tell whether neither chance nor the usual variation of runs explains the difference."""
        return self.is_improbable and not self.is_usual

    @property
    def is_worse(self) -> bool:
        """Tell whether the run as a whole is worse, and not by chance."""
        return self.is_significant and self.fell

    @property
    def is_better(self) -> bool:
        """Tell whether the run as a whole is better, and not by chance."""
        return self.is_significant and not self.fell

    @property
    def variation(self) -> str:
        """Sentence on the variation of earlier runs, if it explains an improbable difference; else ""."""
        if not (self.is_improbable and self.is_usual and self.usual):
            return ""
        low, high = (f"{100 * limit:+.1f}".replace("-", "−") for limit in (self.usual.low, self.usual.high))
        return f"Earlier runs vary as much: from {low} to {high} points around their mean."


def judge_whole(
    cases: Sequence[tuple[OutcomeCounts, EarlierOutcomes]], level: float, refusal: str, dependence: Dependence
) -> Whole:
    """Judge all comparable cases together, each against its own earlier outcomes."""
    differences = [current.passed / current.total - earlier.rate for current, earlier in cases]
    correlation = dependence.correlation
    tables = [OutcomeTable(*current, earlier.passed, earlier.total) for current, earlier in cases]
    if correlation:
        fewer, more = _cluster_test_probabilities(cases, correlation)
    else:
        fewer = at_most_probability_in_all(tables)
        more = at_most_probability_in_all([table.mirror for table in tables])
    return Whole(
        len(differences),
        sum(difference < 0 for difference in differences),
        sum(difference > 0 for difference in differences),
        min(1.0, 2 * min(fewer, more)),
        fewer < more,
        statistics.paired_effect(differences),
        level,
        refusal,
        CLUSTER_TEST if correlation else EXACT_TEST,
        dependence,
        _predict_run(cases),
        fmean(differences) if differences else 0.0,
    )


def _predict_run(cases: Sequence[tuple[OutcomeCounts, EarlierOutcomes]]) -> UsualRange | None:
    """Return the range in which the mean difference of a further run would lie, by the earlier runs."""
    if not cases:
        return None
    all_earlier = [earlier for _, earlier in cases]
    return predict_run(
        list(measure_deviations(all_earlier).values()),
        fmean(earlier.rate for earlier in all_earlier),
        sum(current.total for current, _ in cases),
    )


def _cluster_test_probabilities(
    cases: Sequence[tuple[OutcomeCounts, EarlierOutcomes]], correlation: float
) -> tuple[float, float]:
    """Return the probabilities of so few and of so many passes in all cases, if repetitions resemble each other.

    The sum has the mean of the exact test. Its variance is larger by the design effect of each run; its distribution is
    taken as normal.
    """
    difference = variance = 0.0
    for current, earlier in cases:
        total = current.total + earlier.total
        share = (current.passed + earlier.passed) / total
        difference += current.passed - current.total * share
        independent = effective_total(current.total, correlation)
        independent_earlier = sum(effective_total(run.total, correlation) for run in earlier.by_run)
        weight = current.total * earlier.total / total
        variance += weight**2 * share * (1 - share) * (1 / independent + 1 / independent_earlier)
    if not variance:
        return 1.0, 1.0
    fewer = NormalDist(0, math.sqrt(variance)).cdf(difference)
    return fewer, 1 - fewer
