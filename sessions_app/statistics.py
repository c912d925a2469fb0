"""Intervals of rates, means and differences, at 95 %. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

Z = 1.959963984540054
"""Standard deviations to both sides of 95 % of a normal distribution."""

MAX_GROUPS = 16
"""Number of groups that `estimate_group_mean` can take."""

_BISECTIONS = 50


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


@lru_cache(maxsize=256)
def student_quantile(freedom: int) -> float:
    """Return how many standard errors to both sides hold 95 % of Student's t distribution."""
    low, high = Z, 12.8
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if student_share_within(middle, freedom) < 0.95 else (low, middle)
    return low


def student_share_within(value: float, freedom: int) -> float:
    """Return the share of Student's t distribution between minus a value and the value.

    The finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
    angle = math.atan(value / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    is_odd = freedom % 2
    term, total = (cosine, 0.0) if is_odd else (1.0, 0.0)
    for step in range(1, freedom // 2 + 1):
        total += term
        term *= cosine * cosine * ((2 * step) / (2 * step + 1) if is_odd else (2 * step - 1) / (2 * step))
    return 2 / math.pi * (angle + sine * total) if is_odd else sine * total


def estimate_group_mean(groups: Sequence[tuple[float, int]]) -> Estimate | None:
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
    half = student_quantile(len(filled) - 1) * math.sqrt(squares * len(filled) / (len(filled) - 1)) / total
    return Estimate(mean, Interval(mean - half, mean + half))


def difference(before: Estimate, after: Estimate) -> Estimate:
    """Return the difference of two independent values.

    Its interval comes from theirs (Zou and Donner, Statistics in Medicine 2008); of rates it is Newcombe's.
    """
    value = after.value - before.value
    down = math.hypot(after.value - after.interval.low, before.interval.high - before.value)
    up = math.hypot(after.interval.high - after.value, before.value - before.interval.low)
    return Estimate(value, Interval(value - down, value + up))
