"""Exact tests of changed pass rates: one case, many cases at once, and a run as a whole. Pure.

Null hypothesis of all tests: a case passes with the same probability now as earlier. Given all of its outcomes, each
way to divide them between now and earlier is then equally probable, so the number of passes now has a hypergeometric
distribution. The tests are one-sided and ask whether there are too few passes; a mirrored table asks for too many.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist
from typing import NamedTuple

_TIE = 1 + 1e-9
"""Tolerance for probabilities that are equal except for rounding."""
_NEGLIGIBLE = 1e-15
"""Probability below which the end of a distribution is cut off."""
_CERTAINLY_CHANCE = 0.5
"""Adjusted probability from which further, larger ones are not computed."""
_BISECTIONS = 24


class OutcomeTable(NamedTuple):
    """Outcomes of one case: passes and repetitions now, and earlier."""

    passed: int
    total: int
    earlier_passed: int
    earlier_total: int

    @property
    def mirror(self) -> OutcomeTable:
        """The table with failures as passes, which tests for too many passes."""
        return OutcomeTable(
            self.total - self.passed, self.total, self.earlier_total - self.earlier_passed, self.earlier_total
        )

    @property
    def varies(self) -> bool:
        """Tell whether the case has passed and failed."""
        return 0 < self.passed + self.earlier_passed < self.total + self.earlier_total


class _Passes(NamedTuple):
    """Distribution of the number of passes now. `cumulative[i]` is the probability of at most `low + i`."""

    low: int
    weights: tuple[float, ...]
    cumulative: tuple[float, ...]


@lru_cache(maxsize=1 << 16)
def _pass_distribution(total: int, earlier_total: int, passes: int) -> _Passes:
    low, high = max(0, passes - earlier_total), min(total, passes)
    ways = [
        math.comb(total, count) * math.comb(earlier_total, passes - count) for count in range(low, high + 1)
    ]
    all_ways = math.comb(total + earlier_total, passes)
    return _Passes(
        low,
        tuple(way / all_ways for way in ways),
        tuple(way / all_ways for way in accumulate(ways)),
    )


def _table_distribution(table: OutcomeTable) -> _Passes:
    return _pass_distribution(table.total, table.earlier_total, table.passed + table.earlier_passed)


def at_most_probability(table: OutcomeTable) -> float:
    """Return the probability of at most as many passes now, if the pass rate has not changed (Fisher's exact test)."""
    distribution = _table_distribution(table)
    return distribution.cumulative[table.passed - distribution.low]


def change_probability(table: OutcomeTable) -> float:
    """Return the two-sided probability of so large a change: twice the smaller one-sided one."""
    return min(1.0, 2 * min(at_most_probability(table), at_most_probability(table.mirror)))


def adjust_for_many(tables: Sequence[OutcomeTable]) -> list[float]:
    """Return each case's probability of fewer passes, adjusted for the number of cases tested.

    The adjusted value is the probability that the smallest value of all cases is so small by chance (the step-down
    min-p method of Westfall and Young). It is exact, because cases are independent: a case has only the few values that
    its number of outcomes allows, and one whose outcomes are all equal never has a small one: solid cases cost nothing.
    """
    raw = [at_most_probability(table) for table in tables]
    order = sorted(range(len(tables)), key=raw.__getitem__)
    adjusted = [1.0] * len(tables)
    distributions = [_table_distribution(tables[index]).cumulative for index in order]
    largest = 0.0
    for rank, index in enumerate(order):
        if largest >= _CERTAINLY_CHANCE:
            break
        largest = max(largest, _smallest_probability(distributions[rank:], raw[index]))
        adjusted[index] = largest
    return adjusted


def adjust_smallest(tables: Sequence[OutcomeTable]) -> float:
    """Return the smallest of the values of `adjust_for_many`."""
    smallest = min(map(at_most_probability, tables), default=1.0)
    return _smallest_probability([_table_distribution(table).cumulative for table in tables], smallest)


def find_critical_value(tables: Sequence[OutcomeTable], level: float) -> float:
    """Return the largest probability of a single case that, adjusted for these cases, is at most `level`."""
    distributions = [_table_distribution(table).cumulative for table in tables if table.varies]
    low, high = level / max(1, len(distributions)), level
    for _ in range(_BISECTIONS):
        middle = math.sqrt(low * high)
        if _smallest_probability(distributions, middle) <= level:
            low = middle
        else:
            high = middle
    return low


def _smallest_probability(distributions: Sequence[Sequence[float]], limit: float) -> float:
    """Return the probability that the smallest value of all cases is at most `limit` by chance."""
    chances = [_largest_attainable(values, limit) for values in distributions]
    if max(chances, default=0.0) >= 1:
        return 1.0
    return -math.expm1(math.fsum(math.log1p(-chance) for chance in chances))  # exact for a single case


def _largest_attainable(cumulative: Sequence[float], limit: float) -> float:
    """Return the largest value of a case's test that is at most `limit`; 0 if none is."""
    count = bisect_right(cumulative, limit * _TIE)
    return cumulative[count - 1] if count else 0.0


def at_most_probability_in_all(tables: Sequence[OutcomeTable]) -> float:
    """Return the probability of so few passes in all cases together, if no pass rate has changed.

    The sum of the cases' passes is compared with its exact distribution, stratified by case.
    """
    passes, lowest, weights = sum(table.passed for table in tables), 0, [1.0]
    for table in tables:
        distribution = _table_distribution(table)
        lowest += distribution.low
        if len(distribution.weights) > 1:
            lowest, weights = _trim_negligible(lowest, _convolve_weights(weights, distribution.weights))
    return min(1.0, math.fsum(weights[: max(0, passes - lowest + 1)]))


def expect_passes(tables: Sequence[OutcomeTable]) -> NormalDist:
    """Return mean and deviation of the number of passes now in all cases, if no pass rate has changed."""
    mean = variance = 0.0
    for table in tables:
        outcomes, passes = table.total + table.earlier_total, table.passed + table.earlier_passed
        share = passes / outcomes
        mean += table.total * share
        if table.varies:
            variance += table.total * share * (1 - share) * table.earlier_total / (outcomes - 1)
    return NormalDist(mean, math.sqrt(variance))


def _convolve_weights(weights: Sequence[float], others: Sequence[float]) -> list[float]:
    sums = [0.0] * (len(weights) + len(others) - 1)
    for offset, weight in enumerate(weights):
        for step, other in enumerate(others):
            sums[offset + step] += weight * other
    return sums


def _trim_negligible(lowest: int, weights: list[float]) -> tuple[int, list[float]]:
    start, end = 0, len(weights)
    while weights[start] < _NEGLIGIBLE:
        start += 1
    while weights[end - 1] < _NEGLIGIBLE:
        end -= 1
    return lowest + start, weights[start:end]
