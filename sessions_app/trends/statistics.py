"""Intervals of rates, means and differences, at 95 %. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z = 1.959963984540054
"""Standard deviations to both sides of 95 % of a normal distribution."""

_T = (
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
)
"""The same of Student's t distribution with 1, 2, 3 … degrees of freedom."""

MAX_GROUPS = len(_T) + 1
"""Number of groups that `mean_of_groups` can take."""


@dataclass(frozen=True)
class Interval:
    """95 % confidence interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % confidence interval."""

    value: float
    interval: Interval


def wilson(passed: float, total: int) -> Interval:
    """Return the Wilson score interval of a rate; 0–1 without trials.

    Unlike the textbook interval it stays within 0–1 and is useful at 0 and at 100 %: 3 of 3 is 0.44–1.
    """
    if not total:
        return Interval(0.0, 1.0)
    rate, square = passed / total, Z * Z / total
    centre = (rate + square / 2) / (1 + square)
    half = Z * math.sqrt(rate * (1 - rate) / total + square / (4 * total)) / (1 + square)
    low = 0.0 if passed == 0 else max(0.0, centre - half)
    high = 1.0 if passed == total else min(1.0, centre + half)
    return Interval(low, high)


def mean_of_groups(groups: Sequence[tuple[float, int]]) -> Estimate | None:
    """Return the mean amount per observation, given (total amount, number of observations) of random groups.

    The variance is that of the groups around the common mean (Wolter, Introduction to Variance Estimation, chapter 2).
    None for fewer than two groups.
    """
    filled = [(amount, count) for amount, count in groups if count]
    if not 2 <= len(filled) <= MAX_GROUPS:
        return None
    total = sum(count for _, count in filled)
    mean = math.fsum(amount for amount, _ in filled) / total
    squares = math.fsum((amount - mean * count) ** 2 for amount, count in filled)
    half = _T[len(filled) - 2] * math.sqrt(squares * len(filled) / (len(filled) - 1)) / total
    return Estimate(mean, Interval(mean - half, mean + half))


def difference(before: Estimate, after: Estimate) -> Estimate:
    """Return the difference of two independent values.

    Its interval comes from theirs (Zou and Donner, Statistics in Medicine 2008); of rates it is Newcombe's.
    """
    value = after.value - before.value
    down = math.hypot(after.value - after.interval.low, before.interval.high - before.value)
    up = math.hypot(after.interval.high - after.value, before.value - before.interval.low)
    return Estimate(value, Interval(value - down, value + up))
