"""Intervals of means and differences: published values, and coverage in simulations."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import scipy  # imports its modules when they are used

from sessions_app import statistics
from sessions_app.statistics import Estimate, difference, estimate_group_mean, wilson
from sessions_app.trends import histogram


def rate(passed: int, total: int) -> Estimate:
    return Estimate(passed / total, wilson(passed, total))


@pytest.mark.parametrize(
    ("after", "before", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((5, 56), (0, 29), -0.0381, 0.1926),
    ],
)
def test_difference_of_rates_is_newcombe_s_method_10(after, before, low, high):
    interval = difference(rate(*before), rate(*after)).interval
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=2e-4)


def test_quantiles_of_student_s_t():
    for freedom in (1, 2, 3, 4, 7, 15, 20, 59):
        assert statistics.student_quantile(freedom) == pytest.approx(scipy.stats.t.ppf(0.975, freedom))
        for value in (0.1, 1.0, 3.0, 40.0):
            share = 2 * scipy.stats.t.cdf(value, freedom) - 1
            assert statistics.student_share_within(value, freedom) == pytest.approx(share)


def test_mean_of_fewer_than_two_groups_has_no_interval():
    assert estimate_group_mean([]) is None
    assert estimate_group_mean([(5.0, 3), (0.0, 0)]) is None


@pytest.mark.parametrize("observations", [20, 200])
def test_interval_of_a_mean_covers_it_in_95_percent_of_simulations(observations):
    chance, covered = random.Random(1), 0
    for _ in range(600):
        groups = [[0.0, 0] for _ in range(statistics.MAX_GROUPS)]
        for _ in range(observations):
            group = chance.choice(groups)
            group[0] += chance.expovariate(1.0)
            group[1] += 1
        interval = estimate_group_mean([(amount, int(count)) for amount, count in groups]).interval
        covered += interval.low <= 1.0 <= interval.high
    assert 0.90 <= covered / 600 <= 0.975


@pytest.mark.parametrize("observations", [6, 25, 400])
def test_interval_of_a_median_covers_it_in_95_percent_of_simulations(observations):
    chance, covered = random.Random(2), 0
    for _ in range(500):
        durations = Counter(histogram.find_cell(chance.lognormvariate(0, 1)) for _ in range(observations))
        interval = histogram.median(durations).interval
        covered += interval.low <= 1.0 <= interval.high
    assert covered / 500 >= 0.93


def test_median_of_few_durations_has_no_interval():
    assert histogram.median(Counter([3, 4, 5, 6, 7])) is None


def test_histogram_reads_back_as_it_was_written():
    durations = Counter(histogram.find_cell(seconds) for seconds in (0.0, 1e-9, 0.3, 0.3, 86_400.0))
    assert histogram.load(histogram.dump(durations)) == durations
