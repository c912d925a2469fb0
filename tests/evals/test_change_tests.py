"""Exact tests of changed pass rates, compared with scipy and with brute force."""

from __future__ import annotations

import functools
import itertools
import math
import random

import pytest
import scipy  # imports its modules when they are used
from hypothesis import given
from hypothesis import strategies as st

from evals_app.analysis.change_tests import (
    OutcomeTable,
    adjust_for_many,
    at_most_probability,
    at_most_probability_in_all,
    change_probability,
    find_critical_value,
)


@st.composite
def tables(draw, most=12):
    total, earlier = draw(st.integers(1, most)), draw(st.integers(1, most))
    return OutcomeTable(draw(st.integers(0, total)), total, draw(st.integers(0, earlier)), earlier)


def scipy_distribution(table):
    """Return scipy's distribution of the passes now."""
    passes = table.passed + table.earlier_passed
    return scipy.stats.hypergeom(table.total + table.earlier_total, passes, table.total)


@functools.cache
def scipy_outcomes(table):
    """Return each number of passes now with its probability and that of at most as many, computed at once."""
    passes = range(table.total + 1)
    distribution = scipy_distribution(table)
    return list(
        zip(passes, distribution.pmf(passes).tolist(), distribution.cdf(passes).tolist(), strict=True)
    )


@given(tables(40))
def test_test_of_one_case_equals_fishers_exact_test_of_scipy(table):
    counts = [
        [table.passed, table.total - table.passed],
        [table.earlier_passed, table.earlier_total - table.earlier_passed],
    ]
    assert at_most_probability(table) == pytest.approx(
        scipy.stats.fisher_exact(counts, alternative="less").pvalue
    )
    assert at_most_probability(table.mirror) == pytest.approx(
        scipy.stats.fisher_exact(counts, alternative="greater").pvalue
    )


@given(tables())
def test_probability_of_change_is_twice_the_smaller_tail(table):
    tails = at_most_probability(table), at_most_probability(table.mirror)
    assert change_probability(table) == min(1.0, 2 * min(tails))


@given(st.lists(tables(5), min_size=1, max_size=3))
def test_adjusted_probability_counts_every_outcome_of_all_cases(cases):
    """Each combination of passes of all cases is weighed, as permuting the outcomes would."""
    smallest = min(map(at_most_probability, cases))
    expected = 0.0
    for outcomes in itertools.product(*map(scipy_outcomes, cases)):
        _, weights, values = zip(*outcomes, strict=True)
        expected += math.prod(weights) * (min(values) <= smallest * (1 + 1e-9))
    assert min(adjust_for_many(cases)) == pytest.approx(expected)


@given(st.lists(tables(), min_size=1, max_size=8))
def test_adjusted_probabilities_keep_the_order_and_are_never_smaller(cases):
    raw, adjusted = [at_most_probability(table) for table in cases], adjust_for_many(cases)
    assert all(more >= own - 1e-12 for own, more in zip(raw, adjusted, strict=True))
    by_raw = [value for _, value in sorted(zip(raw, adjusted, strict=True))]
    assert by_raw == sorted(by_raw)


def test_solid_cases_do_not_weaken_the_test_of_another():
    fallen, solid = OutcomeTable(0, 3, 18, 18), OutcomeTable(3, 3, 18, 18)
    assert adjust_for_many([fallen] + [solid] * 199)[0] == pytest.approx(at_most_probability(fallen))


def test_flaky_cases_weaken_the_test_of_another():
    fallen, flaky = OutcomeTable(3, 5, 30, 30), OutcomeTable(4, 5, 24, 30)
    assert adjust_for_many([fallen] + [flaky] * 19)[0] > 2 * at_most_probability(fallen)


@given(st.lists(tables(), min_size=1, max_size=8))
def test_critical_value_is_the_limit_of_significance(cases):
    critical = find_critical_value(cases, 0.025)
    for table, adjusted in zip(cases, adjust_for_many(cases), strict=True):
        if adjusted == min(adjust_for_many(cases)) and abs(at_most_probability(table) - critical) > 1e-6:
            assert (at_most_probability(table) <= critical) == (adjusted <= 0.025)


@given(st.lists(tables(5), min_size=1, max_size=4))
def test_sum_of_all_cases_has_the_distribution_of_scipy(cases):
    observed, expected = sum(table.passed for table in cases), 0.0
    for outcomes in itertools.product(*map(scipy_outcomes, cases)):
        passes, weights, _ = zip(*outcomes, strict=True)
        if sum(passes) <= observed:
            expected += math.prod(weights)
    assert at_most_probability_in_all(cases) == pytest.approx(expected)


def test_sum_of_many_cases_agrees_with_the_normal_distribution():
    """400 cases are far enough to the limit to be held to the sum of means and variances."""
    draw = random.Random(7)
    cases = [OutcomeTable(draw.randint(0, 5), 5, draw.randint(5, 25), 30) for _ in range(400)]
    mean = sum(scipy_distribution(table).mean() for table in cases)
    deviation = sum(scipy_distribution(table).var() for table in cases) ** 0.5
    observed = sum(table.passed for table in cases)
    expected = scipy.stats.norm.cdf((observed + 0.5 - mean) / deviation)
    assert at_most_probability_in_all(cases) == pytest.approx(expected, abs=1e-3)


def test_nothing_to_test_proves_nothing():
    assert adjust_for_many([]) == []
    assert at_most_probability_in_all([]) == 1.0
    assert at_most_probability(OutcomeTable(1, 3, 0, 0)) == 1.0
