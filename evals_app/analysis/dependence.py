"""Dependence of outcomes within a run, estimated from earlier runs: repetitions that resemble each other, and runs that
differ from each other more than chance explains. Pure.

Tests of pass rates count outcomes as independent. They are not, if repetitions of a run share an answer (a cache,
temperature 0) or if whole runs have good and bad days (a model under load). Both show in earlier runs. Repetitions then
count as fewer independent ones (the design effect of cluster samples, Kish 1965), and a fall of a whole run counts only
if it is also outside the prediction interval of earlier runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple

from evals_app.analysis.change_tests import OutcomeTable, change_probability
from sessions_app.statistics import student_quantile, student_share_within

MIN_RUNS = 4
"""Earlier runs from which on dependence is estimated; with fewer, outcomes are taken as independent."""
RATE_CHANGE_LEVEL = 0.005
"""Newer and older runs differ visibly if Fisher's exact test is at most this probable."""
_CLEARLY_EQUAL = 1.9
"""Standard deviations of a difference below which the exact test is never as improbable as `RATE_CHANGE_LEVEL`."""
RUN_CHANGE_LEVEL = 0.001
"""Probability of a change of whole runs by chance up to which what came before it does not count."""
_STEADY_LEVEL = 0.001
"""The same, in view of how much the means of runs vary on either side of the change."""


class OutcomeCounts(NamedTuple):
    """Passes and outcomes of a case in a run; of several runs, as numbers of independent outcomes."""

    passed: int
    total: int


Series = Sequence[OutcomeCounts]
"""Outcomes of a case by run, the newest first."""


@dataclass(frozen=True)
class Dependence:
    """Dependence of outcomes within a run.

    Attributes:
        runs: number of earlier runs that it is estimated from.
        correlation: of the repetitions of a case in one run, 0 (independent) to 1 (always equal).
    """

    runs: int = 0
    correlation: float = 0.0

    @property
    def is_known(self) -> bool:
        """Tell whether there are enough earlier runs for an estimate."""
        return self.runs >= MIN_RUNS

    @property
    def text(self) -> str:
        """The assumption or the estimate, as a sentence."""
        if not self.is_known:
            return (
                f"Outcomes are assumed to be independent: an estimate needs {MIN_RUNS} earlier runs, and there"
                f" {'is' if self.runs == 1 else 'are'} {self.runs or 'none'}."
            )
        if not self.correlation:
            return f"In {self.runs} earlier runs, repetitions show no dependence."
        return (
            f"In {self.runs} earlier runs, repetitions of one run resemble each other (correlation"
            f" {self.correlation:.2f}): 5 count as {effective_total(5, self.correlation):.1f}."
        )


def effective_total(total: int, correlation: float) -> float:
    """Return the number of independent outcomes that as many repetitions of one run are worth."""
    return total / (1 + (total - 1) * correlation) if total else 0.0


def effective_counts(series: Series, correlation: float) -> OutcomeCounts:
    """Return the outcomes of runs as independent ones, rounded to whole numbers."""
    if not correlation:
        return OutcomeCounts(sum(counts.passed for counts in series), sum(counts.total for counts in series))
    weights = [effective_total(counts.total, correlation) for counts in series]
    passes = math.fsum(
        weight * counts.passed / counts.total
        for weight, counts in zip(weights, series, strict=True)
        if counts.total
    )
    total = max(1, round(math.fsum(weights)))
    return OutcomeCounts(min(total, round(passes)), total)


def cut_at_change(series: Series, correlation: float) -> int:
    """Return how many of the newest runs lie since the clearest change of the pass rate; all of them without one."""
    least, count = RATE_CHANGE_LEVEL, len(series)
    for newer_count in _possible_changes(series):
        table = OutcomeTable(
            *effective_counts(series[:newer_count], correlation),
            *effective_counts(series[newer_count:], correlation),
        )
        if (probability := change_probability(table)) <= least:
            least, count = probability, newer_count
    return count


def _possible_changes(series: Series) -> list[int]:
    """Return the numbers of newest runs whose pass rate differs from that of the older ones by more than a little."""
    total, passes = sum(counts.total for counts in series), sum(counts.passed for counts in series)
    if passes in (0, total):
        return []
    variance = passes / total * (1 - passes / total)
    possible, newer_total, newer_passes = [], 0, 0
    for newer_count, counts in enumerate(series[:-1], 1):
        newer_total, newer_passes = newer_total + counts.total, newer_passes + counts.passed
        older_total = total - newer_total
        difference = newer_passes / newer_total - (passes - newer_passes) / older_total
        if abs(difference) > _CLEARLY_EQUAL * math.sqrt(variance * (1 / newer_total + 1 / older_total)):
            possible.append(newer_count)
    return possible


def estimate_correlation(segments: Sequence[Series]) -> float:
    """Return the correlation of repetitions within a run: pooled one-way analysis of variance over cases.

    Args:
        segments: runs of a case between which its pass rate has not changed; runs without outcomes are left out.
    """
    within = between = 0.0
    repeated = runs = outcomes = squares = 0
    for series in segments:
        total = sum(counts.total for counts in series)
        mean = sum(counts.passed for counts in series) / total
        for passed, count in series:
            within += passed * (1 - passed / count)
            between += count * (passed / count - mean) ** 2
            repeated += count - 1
            squares += count * count
        runs += len(series) - 1
        outcomes += total
    if not repeated or not runs:
        return 0.0
    size = max(1.0, squares / outcomes)
    mean_within, mean_between = within / repeated, between / runs
    total_variance = mean_between + (size - 1) * mean_within
    return min(1.0, max(0.0, (mean_between - mean_within) / total_variance)) if total_variance > 0 else 0.0


def estimate_dependence(all_series: Sequence[Series], runs: int) -> Dependence:
    """Return the dependence of the outcomes of cases in earlier runs.

    A changed pass rate, such as after a repair, must not look like dependence. So each case is divided where its rate
    changed most clearly, before the correlation is known, then again where it changed visibly in view of that.

    Args:
        all_series: outcomes of the cases, by run.
        runs: number of earlier runs.
    """
    if runs < MIN_RUNS:
        return Dependence(runs)
    first = _estimate_divided(all_series, 0.0)
    return Dependence(runs, _estimate_divided(all_series, first))


def _estimate_divided(all_series: Sequence[Series], correlation: float) -> float:
    segments: list[Series] = []
    for series in all_series:
        count = cut_at_change(series, correlation)
        segments += [series[:count], series[count:]]
    return estimate_correlation([segment for segment in segments if segment])


@dataclass(frozen=True)
class UsualRange:
    """Range in which a further run's mean difference from the cases' rates would lie, by those of earlier runs."""

    low: float
    high: float


def predict_run(deviations: Sequence[float], rate: float, outcomes: int) -> UsualRange | None:
    """Return the 95 % prediction interval of a further run; None if there are fewer than `MIN_RUNS` earlier ones.

    It is computed from log odds: at a high rate, a bad day takes away more than a good day adds.

    Args:
        deviations: of each earlier run, the mean over its cases of the difference from the case's rate (−1 … 1).
        rate: mean rate of the cases.
        outcomes: number of outcomes of a run.
    """
    if len(deviations) < MIN_RUNS:
        return None
    odds = [_log_odds(rate + deviation, outcomes) for deviation in deviations]
    center = fmean(odds)
    half = student_quantile(len(odds) - 1) * stdev(odds) * math.sqrt(1 + 1 / len(odds))
    low, high = (_convert_to_rate(limit, outcomes) - rate for limit in (center - half, center + half))
    return UsualRange(low, high)


def _log_odds(rate: float, outcomes: int) -> float:
    """Return the logarithm of the odds of a rate, with half a pass and half a failure more: it is finite, too, at 1."""
    passed = outcomes * min(1.0, max(0.0, rate))
    return math.log((passed + 0.5) / (outcomes - passed + 0.5))


def _convert_to_rate(log_odds: float, outcomes: int) -> float:
    """Return the rate that has these log odds: the inverse of `_log_odds`."""
    share = 1 / (1 + math.exp(-log_odds))
    return (share * (outcomes + 1) - 0.5) / outcomes


def find_run_change(deviations: Sequence[float], chance_deviation: float) -> int:
    """Return how many of the newest runs lie since the clearest change of whole runs; all of them without one.

    Newer and older runs differ if neither chance in the outcomes explains it, nor how much runs vary on either side.

    Args:
        deviations: see `predict_run`; of the runs, the newest first.
        chance_deviation: standard deviation that they have if only chance is at work.
    """
    count, largest = len(deviations), 0.0
    for newer_count in range(1, len(deviations)):
        newer, older = deviations[:newer_count], deviations[newer_count:]
        difference = abs(fmean(newer) - fmean(older))
        spread = math.sqrt(1 / len(newer) + 1 / len(older))
        by_chance = difference / (chance_deviation * spread) if chance_deviation else 0.0
        is_improbable = by_chance > largest and 2 * NormalDist().cdf(-by_chance) <= RUN_CHANGE_LEVEL
        if is_improbable and _is_beyond_variation(difference / spread, newer, older):
            count, largest = newer_count, by_chance
    return count


def _is_beyond_variation(scaled: float, newer: Sequence[float], older: Sequence[float]) -> bool:
    """Tell whether runs of one side seldom differ so much (t test); with too few runs nothing is known of that."""
    freedom = len(newer) + len(older) - 2
    if freedom < MIN_RUNS - 2:
        return True
    squares = sum((value - fmean(side)) ** 2 for side in (newer, older) for value in side)
    if not squares:
        return True
    return 1 - student_share_within(scaled / math.sqrt(squares / freedom), freedom) <= _STEADY_LEVEL
