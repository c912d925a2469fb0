"""Statistics of repetitions and paired outcomes. Pure.

Intervals are at 95 %. Tests are two-sided, exact, and return the probability of a result at least as extreme under
the null hypothesis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

Z = 1.959963984540054
"""Standard deviations to both sides of 95 % of a normal distribution."""
ALPHA = 0.05
"""Significance level."""
UNITS = 2520
"""Differences of rates are told apart in 1/2520: exact for up to ten repetitions a case (2520 = lcm(1…10))."""
MOST_REPETITIONS = 200
"""Maximum number of repetitions that is computed as necessary."""
_TIE = 1 + 1e-7
"""Tolerance for equal probabilities, as in Fisher's test of R and scipy."""


@dataclass(frozen=True)
class Interval:
    """95 % confidence interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Spread:
    """Spread of scores. `deviation` is the sample's standard deviation; None for a single score."""

    mean: float
    deviation: float | None
    low: float
    high: float

    @property
    def varies(self) -> bool:
        """Tell whether the scores differ."""
        return self.low != self.high


@dataclass(frozen=True)
class Effect:
    """A mean difference of rates (−1 … 1) and its interval."""

    mean: float
    interval: Interval


@dataclass(frozen=True)
class Rate:
    """A pass rate: `passed` of `total`; of cases that were repeated, the sum of their rates."""

    passed: float
    total: int

    @property
    def value(self) -> float | None:
        """The share that passed; None when nothing was tried."""
        return self.passed / self.total if self.total else None

    @property
    def interval(self) -> Interval:
        """Wilson's interval."""
        return wilson(self.passed, self.total)


def wilson(passed: float, total: int) -> Interval:
    """Return the Wilson score interval of a pass rate; all of 0–1 when nothing was tried.

    Unlike the textbook interval it stays inside 0–1 and says something at 0 and at 100 %: 3 of 3 is 0.44–1.
    """
    if not total:
        return Interval(0.0, 1.0)
    rate, square = passed / total, Z * Z / total
    centre = (rate + square / 2) / (1 + square)
    half = Z * math.sqrt(rate * (1 - rate) / total + square / (4 * total)) / (1 + square)
    low = 0.0 if passed == 0 else max(0.0, centre - half)
    high = 1.0 if passed == total else min(1.0, centre + half)
    return Interval(low, high)


def pass_hat_k(passed: int, total: int, k: int) -> float | None:
    """Return pass^k: the chance that k repetitions all pass, estimated without bias from `total`.

    C(passed, k) / C(total, k), as τ-bench defines it (arXiv 2406.12045). None when k is not in 1 … total.
    """
    if not 1 <= k <= total:
        return None
    return math.comb(passed, k) / math.comb(total, k)


def spread(scores: Iterable[float]) -> Spread | None:
    """Return how scores scatter; None without any."""
    values = list(scores)
    if not values:
        return None
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    deviation = math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else None
    return Spread(mean, deviation, min(values), max(values))


@lru_cache(maxsize=4096)
def fisher_exact(passed: int, failed: int, passed_then: int, failed_then: int) -> float:
    """Return Fisher's exact probability that two sets of outcomes come from one pass rate."""
    ours, theirs, passes = passed + failed, passed_then + failed_then, passed + passed_then
    low, high = max(0, passes - theirs), min(ours, passes)
    ways = [math.comb(ours, count) * math.comb(theirs, passes - count) for count in range(low, high + 1)]
    observed = ways[passed - low]
    unlikely = sum(way for way in ways if way <= observed * _TIE)
    return float(unlikely / math.comb(ours + theirs, passes))


def mcnemar_exact(worse: int, better: int) -> float:
    """Return McNemar's exact probability of so uneven a split of the cases whose outcome changed."""
    total, fewer = worse + better, min(worse, better)
    tail: int = sum(math.comb(total, count) for count in range(fewer + 1))
    return min(1.0, 2 * tail / (1 << total))


def sign_flip(differences: Iterable[float]) -> float:
    """Return the exact probability of the paired permutation test on per-case differences of rates.

    If nothing but chance were at work, each difference would as well have the other sign. All 2^n signs are counted
    (by convolution, not one by one). When every difference is −1, 0 or 1 it is `mcnemar_exact`.
    """
    units = [round(difference * UNITS) for difference in differences]
    observed = abs(sum(units))
    sizes = [abs(unit) for unit in units if unit]
    chances = {0: 1.0}
    for size in sorted(set(sizes)):
        chances = _convolve(chances, size, sizes.count(size))
    return min(1.0, math.fsum(chance for total, chance in chances.items() if abs(total) >= observed))


def _convolve(chances: dict[int, float], size: int, times: int) -> dict[int, float]:
    """Return how a sum is distributed when `times` signs of one size are thrown on top of it."""
    weights = [math.comb(times, heads) / (1 << times) for heads in range(times + 1)]
    steps = [(size * (2 * heads - times), weight) for heads, weight in enumerate(weights)]
    sums: dict[int, float] = {}
    for total, chance in chances.items():
        for step, weight in steps:
            sums[total + step] = sums.get(total + step, 0.0) + chance * weight
    return sums


def paired_effect(differences: Sequence[float]) -> Effect | None:
    """Return the mean of per-case differences of rates and its interval; None without any.

    Agresti and Min (Statistics in Medicine 2005): Wald's interval after half an observation was added to each of the
    four ways in which a pair can end. It holds its level with few cases, where Wald's does not.
    """
    if not differences:
        return None
    count, total = len(differences) + 2, math.fsum(differences)
    squares = math.fsum(difference * difference for difference in differences) + 1
    half = Z * math.sqrt(max(0.0, squares - total * total / count)) / count
    interval = Interval(max(-1.0, total / count - half), min(1.0, total / count + half))
    return Effect(total / len(differences), interval)


def separate(passed: int, failed: int, passed_then: int, failed_then: int) -> bool:
    """Tell whether all outcomes of either side agree, and the sides differ."""
    now, then = passed + failed, passed_then + failed_then
    return bool(now and then) and (passed, passed_then) in {(0, then), (now, 0)}


@lru_cache(maxsize=4096)
def repetitions_to_tell(passed: int, total: int, passed_then: int, total_then: int) -> int | None:
    """Return how many repetitions of both sides would tell them apart, if they went on as they did.

    None when the rates are equal, or when it would take more than `MOST_REPETITIONS`.
    """
    rate, rate_then = passed / total, passed_then / total_then
    if rate == rate_then:
        return None
    for count in range(2, MOST_REPETITIONS + 1):
        now, then = round(rate * count), round(rate_then * count)
        split = (now, count - now, then, count - then)
        if separate(*split) and abs(rate - rate_then) == 1:
            return count
        if fisher_exact(*split) <= ALPHA:
            return count
    return None
