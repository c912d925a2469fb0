"""Outcomes that depend on each other: correlation of repetitions, usual range of runs, changes between runs."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import scipy  # imports its modules when they are used
from hypothesis import given
from hypothesis import strategies as st

from evals_app.analysis import dependence
from evals_app.analysis.change_tests import OutcomeTable, change_probability
from evals_app.analysis.comparison import compare
from evals_app.analysis.dependence import (
    Dependence,
    OutcomeCounts,
    cut_at_change,
    effective_counts,
    effective_total,
    estimate_correlation,
    estimate_dependence,
    find_run_change,
    predict_run,
)
from evals_app.analysis.outcomes import CaseKey, Outcomes, PastRun, Sameness

SAME = Sameness("a", "m", "d", "j")


def draw_series(source, runs, repetitions, rate, shared):
    def count():
        answer = source.random() < rate
        return sum(answer if source.random() < shared else source.random() < rate for _ in range(repetitions))

    return [OutcomeCounts(count(), repetitions) for _ in range(runs)]


def test_repetitions_count_as_independent_without_correlation_and_as_one_with_full():
    assert effective_total(5, 0.0) == 5
    assert effective_total(5, 1.0) == 1
    assert effective_counts([OutcomeCounts(10, 10), OutcomeCounts(0, 10)], 1.0) == (1, 2)
    assert effective_counts([OutcomeCounts(3, 3), OutcomeCounts(1, 2)], 0.0) == (4, 5)


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
def test_correlation_of_shared_answers_is_estimated(shared):
    source = random.Random(1)
    segments = [draw_series(source, 30, 5, 0.6, shared) for _ in range(40)]
    # repetitions share an answer if both of them take it
    assert estimate_correlation(segments) == pytest.approx(shared**2, abs=0.06)


def test_correlation_is_that_of_the_analysis_of_variance():
    source = random.Random(2)
    cases = [draw_series(source, 6, 4, 0.5, 0.5) for _ in range(10)]
    rates = np.array([[counts.passed / counts.total for counts in series] for series in cases])
    within = 4 / 3 * (rates * (1 - rates)).mean()
    between = 4 * rates.var(axis=1, ddof=1).mean()
    expected = (between - within) / (between + 3 * within)
    assert estimate_correlation(cases) == pytest.approx(expected)


def test_single_repetitions_and_single_runs_say_nothing_of_correlation():
    assert estimate_correlation([[OutcomeCounts(1, 1), OutcomeCounts(0, 1)] * 5]) == 0.0
    assert estimate_correlation([[OutcomeCounts(1, 2)]]) == 0.0
    assert estimate_correlation([]) == 0.0


def test_dependence_is_unknown_below_four_runs():
    series = [[OutcomeCounts(3, 3), OutcomeCounts(0, 3), OutcomeCounts(3, 3)]]
    assert not estimate_dependence(series, 3).is_known
    assert "assumed to be independent" in Dependence(3).text
    assert estimate_dependence([[*series[0], OutcomeCounts(0, 3)]], 4).correlation == pytest.approx(1.0)


def test_repaired_case_does_not_look_like_dependence():
    repaired = [OutcomeCounts(5, 5)] * 6 + [OutcomeCounts(0, 5)] * 6
    assert estimate_dependence([repaired] * 20, 12).correlation == 0.0
    assert cut_at_change(repaired, 0.0) == 6


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(1, 6)).map(
            lambda pair: OutcomeCounts(min(pair), max(pair[1], 1))
        ),
        min_size=1,
        max_size=12,
    )
)
def test_cut_is_the_clearest_significant_change(series):
    def probability(count):
        newer, older = effective_counts(series[:count], 0.0), effective_counts(series[count:], 0.0)
        return change_probability(OutcomeTable(*newer, *older))

    count = cut_at_change(series, 0.0)
    probabilities = {place: probability(place) for place in range(1, len(series))}
    if count == len(series):
        assert all(value > dependence.RATE_CHANGE_LEVEL for value in probabilities.values())
    else:
        assert probabilities[count] == min(probabilities.values()) <= dependence.RATE_CHANGE_LEVEL


def test_usual_range_is_the_prediction_interval_of_runs():
    deviations = [0.0, 0.1, -0.1, 0.05, -0.05]
    odds = scipy.special.logit([0.5 + deviation for deviation in deviations])
    half = scipy.stats.t.ppf(0.975, 4) * np.std(odds, ddof=1) * math.sqrt(1 + 1 / 5)
    usual = predict_run(deviations, 0.5, outcomes=1_000_000)
    limits = scipy.special.expit([-half, half]) - 0.5
    assert (usual.low, usual.high) == pytest.approx(tuple(limits), abs=1e-5)
    assert predict_run(deviations[:3], 0.5, 100) is None


def test_bad_days_take_away_more_than_good_days_add_at_a_high_rate():
    usual = predict_run([0.05, -0.05, 0.1, -0.1, 0.0], 0.8, 100)
    assert -usual.low > 1.2 * usual.high
    steady = predict_run([0.0] * 5, 1.0, 100)
    assert (steady.low, steady.high) == pytest.approx((0.0, 0.0)), "runs that do not vary have no range"


def test_change_of_whole_runs_is_found_by_chance_and_by_variation():
    steady = [0.0] * 5
    assert find_run_change([0.5, *steady], 0.05) == 1
    assert find_run_change(steady, 0.05) == 5
    assert find_run_change([-0.5, 0.5, -0.5, 0.5, -0.5, 0.5], 0.05) == 6, "runs that vary have not changed"
    assert find_run_change([0.1, *steady], 0.05) == 6, "chance explains it"
    assert find_run_change([0.5, -0.5], 0.1) == 1, "two runs say nothing of variation"


def compare_whole(now, runs, repetitions=5, cases=20):
    """Return a comparison of a run with earlier ones, given as passes of each case."""
    keys = [CaseKey(str(number)) for number in range(cases)]

    def side(passed, run):
        return {key: Outcomes(SAME, passed, repetitions - passed, run=run) for key in keys}

    history = {
        key: [
            PastRun(SAME, passed, repetitions - passed, str(place)) for place, passed in enumerate(runs[1:])
        ]
        for key in keys
    }
    return compare(side(runs[0], "baseline"), side(now, "now"), history)


def test_fall_within_the_usual_range_of_runs_decides_nothing():
    result = compare_whole(2, [4, 2, 5, 3, 4, 2, 5, 3])
    assert result.whole.dependence.is_known
    assert not result.regressions
    assert not result.whole.is_worse


def test_fall_outside_of_the_usual_range_is_a_regression():
    result = compare_whole(1, [4, 4, 4, 4, 4, 4])
    assert result.whole.is_worse
    assert "Its pass rate" not in result.whole.variation


def test_few_earlier_runs_are_compared_as_independent():
    result = compare_whole(1, [5, 5])
    assert result.whole.is_worse
    assert result.notes == [
        "Outcomes are assumed to be independent: an estimate needs 4 earlier runs, and there are 2."
    ]


def test_regression_that_was_accepted_is_no_regression_again():
    result = compare_whole(0, [0, 5, 5, 5, 5])
    assert not result.regressions
    assert {change.earlier.total for change in result.cases} == {5}


def test_one_repetition_proves_that_a_solid_case_fell():
    result = compare_whole(0, [1] * 40, repetitions=1, cases=1)
    [change] = result.cases
    assert change.verdict == "regressed"
    assert change.because == "0 of 1 passed now, 40 of 40 earlier (baseline and 39 earlier runs): p = 0.049."
