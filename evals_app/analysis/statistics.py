"""Statistics of repetitions and paired differences. Pure.

Intervals are at 95 %. `change_tests` has the tests of pass rates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random

from sessions_app.statistics import Interval, Z, wilson

MAX_EXACT_SIGNS = 16
"""Number of paired differences up to which all combinations of signs are counted."""
_TIE = 1e-9
"""Tolerance for sums that are equal except for rounding, as a share of the largest possible one."""
SIGN_DRAWS = 20_000
"""Number of random combinations of signs for more differences: a probability of 0.05 is then within 0.003."""


def format_probability(value: float) -> str:
    """Return a probability as `p = 0.031`, with two significant digits."""
    return "p < 0.0001" if value < 0.0001 else f"p = {value:.2g}"


def format_percent(value: float | None) -> str:
    """Return a share in percent, such as 83 %; an en dash for None. Only what is all or nothing is 100 or 0."""
    if value is None:
        return "–"
    rounded = round(100 * value)
    if rounded in (0, 100) and value not in (0.0, 1.0):
        return (
            f"{100 * value:.1f} %" if 0.0005 <= value <= 0.9995 else ("<0.1 %" if value < 0.5 else ">99.9 %")
        )
    return f"{rounded} %"


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


def mean_if_known(values: Iterable[float | None]) -> float | None:
    """Return the mean of values; None if one is unknown, or there are none."""
    all_values = list(values)
    known_values = [value for value in all_values if value is not None]
    is_known = known_values and len(known_values) == len(all_values)
    return sum(known_values) / len(known_values) if is_known else None


def percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile by nearest rank: the smallest value that at least this share of the values does not exceed.

    It is always one of the values; of fewer than 20 the 95th percentile is the largest.
    """
    ordered = sorted(values)
    return ordered[max(1, math.ceil(share * len(ordered) - _TIE)) - 1]


def sign_flip(differences: Iterable[float]) -> float:
    """Return the probability of the paired permutation test on differences per case, two-sided.

    If nothing but chance were at work, each difference would as well have the other sign. Up to `MAX_EXACT_SIGNS`
    differences all combinations of signs are counted; beyond, `SIGN_DRAWS` random ones with a fixed seed.
    """
    values = list(differences)
    sizes = [abs(difference) for difference in values if difference]
    groups = [_signed_sums(sizes[start : start + 8]) for start in range(0, len(sizes), 8)]
    least = abs(math.fsum(values)) - _TIE * sum(sizes)
    if len(sizes) <= MAX_EXACT_SIGNS:
        sums = [math.fsum(parts) for parts in product(*groups)]
        return sum(abs(total) >= least for total in sums) / len(sums)
    choose = Random(0).choices  # noqa: S311 - a simulation, not a secret
    columns = [choose(group, k=SIGN_DRAWS) for group in groups]
    as_large = sum(abs(math.fsum(parts)) >= least for parts in zip(*columns, strict=True))
    return (as_large + 1) / (SIGN_DRAWS + 1)


def _signed_sums(sizes: Sequence[float]) -> list[float]:
    """Return the sums of numbers with all combinations of signs."""
    sums = [0.0]
    for size in sizes:
        sums = [total + sign * size for total in sums for sign in (1, -1)]
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
