"""What repetitions and pairs of outcomes prove: known values, and properties that hold for all."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals_app.analysis.statistics import (
    fisher_exact,
    mcnemar_exact,
    paired_effect,
    pass_hat_k,
    repetitions_to_tell,
    separate,
    sign_flip,
    spread,
    wilson,
)

COUNTS = st.integers(min_value=0, max_value=40)
SIDES = st.tuples(COUNTS, COUNTS).filter(any)
RATES = st.lists(st.sampled_from([0.0, 1 / 3, 2 / 3, 1.0]), min_size=1, max_size=9)


@pytest.mark.parametrize(
    ("passed", "total", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_s_interval_is_that_of_newcombe_s_table(passed, total, low, high):
    """Newcombe, Statistics in Medicine 17 (1998), table I, method 3."""
    interval = wilson(passed, total)
    assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


@given(SIDES)
def test_wilson_s_interval_holds_the_rate_and_mirrors(side):
    passed, total = side[0], sum(side)
    interval, mirrored = wilson(passed, total), wilson(total - passed, total)
    assert 0 <= interval.low <= passed / total <= interval.high <= 1
    assert interval.low == pytest.approx(1 - mirrored.high)


@given(SIDES)
def test_more_repetitions_make_the_interval_narrower(side):
    passed, total = side[0], sum(side)
    some, more = wilson(passed, total), wilson(passed * 4, total * 4)
    assert more.high - more.low < some.high - some.low


def test_without_repetitions_no_statement_is_made():
    assert (wilson(0, 0).low, wilson(0, 0).high) == (0.0, 1.0)
    assert spread([]) is None
    assert pass_hat_k(0, 0, 1) is None
    assert paired_effect([]) is None


@given(st.integers(1, 7), st.data())
def test_pass_hat_k_is_the_share_of_choices_of_k_that_all_passed(total, data):
    passed, k = data.draw(st.integers(0, total)), data.draw(st.integers(1, total))
    outcomes = [True] * passed + [False] * (total - passed)
    chosen = list(itertools.combinations(outcomes, k))
    assert pass_hat_k(passed, total, k) == pytest.approx(sum(map(all, chosen)) / len(chosen))


def test_pass_hat_k_of_more_than_was_tried_is_unknown():
    assert pass_hat_k(3, 3, 4) is None
    assert pass_hat_k(3, 4, 2) == 0.5


def test_the_spread_of_scores_is_the_sample_s():
    found = spread([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
    assert found is not None
    assert (found.mean, found.low, found.high) == (5.0, 2.0, 9.0)
    assert found.deviation == pytest.approx(math.sqrt(32 / 7))
    single = spread([0.5])
    assert single is not None
    assert single.deviation is None


@pytest.mark.parametrize(
    ("table", "probability"),
    [
        ((3, 1, 1, 3), 0.4857142857),  # Fisher's lady tasting tea
        ((8, 2, 1, 5), 0.0349650350),  # scipy's own example
        ((2, 10, 15, 3), 0.0005367241),  # Fisher's twins (R, ?fisher.test: Convictions)
        ((3, 0, 0, 3), 0.1),
        ((4, 0, 0, 4), 0.0285714286),
        ((5, 0, 5, 0), 1.0),
    ],
)
def test_fishers_test_has_published_values(table, probability):
    assert fisher_exact(*table) == pytest.approx(probability)


@given(SIDES, SIDES)
def test_fishers_test_is_symmetric(ours, theirs):
    probability = fisher_exact(*ours, *theirs)
    assert 0 < probability <= 1
    assert probability == pytest.approx(fisher_exact(*theirs, *ours))
    assert probability == pytest.approx(fisher_exact(*reversed(ours), *reversed(theirs)))


@pytest.mark.parametrize(
    ("lost", "won", "probability"),
    [(10, 0, 0.001953125), (1, 9, 0.021484375), (6, 16, 0.0524787903), (0, 0, 1.0)],
)
def test_mcnemars_test_has_published_values(lost, won, probability):
    assert mcnemar_exact(lost, won) == pytest.approx(probability)


@given(COUNTS, COUNTS, COUNTS)
def test_permutation_test_of_one_repetition_equals_mcnemar(lost, won, same):
    differences = [-1.0] * lost + [1.0] * won + [0.0] * same
    assert sign_flip(differences) == pytest.approx(mcnemar_exact(lost, won))


@given(RATES, RATES)
def test_the_permutation_test_counts_every_choice_of_signs(before, after):
    thirds = [round(3 * (right - left)) for left, right in zip(before, after, strict=False)]
    signs = itertools.product((-1, 1), repeat=len(thirds))
    sums = [abs(sum(sign * third for sign, third in zip(chosen, thirds, strict=True))) for chosen in signs]
    expected = sum(one >= abs(sum(thirds)) for one in sums) / len(sums)
    assert sign_flip([third / 3 for third in thirds]) == pytest.approx(expected)


def test_a_thousand_differing_cases_are_still_exact():
    assert sign_flip([1.0] * 520 + [-1.0] * 480) == pytest.approx(mcnemar_exact(480, 520))


@given(st.lists(st.sampled_from([-1.0, -2 / 3, -0.5, 0.0, 1 / 3, 1.0]), min_size=1, max_size=30))
def test_the_interval_of_an_effect_holds_it_and_mirrors(differences):
    found, mirrored = paired_effect(differences), paired_effect([-one for one in differences])
    assert found is not None
    assert mirrored is not None
    assert -1 <= found.interval.low <= found.mean <= found.interval.high <= 1
    assert found.interval.low == pytest.approx(-mirrored.interval.high)


def test_the_interval_of_an_effect_is_agresti_and_min_s():
    """53 pairs lost, 16 won of 237 (their adjusted Wald interval, worked by hand: (16-53)/239 ± 1.96·0.0341)."""
    found = paired_effect([-1.0] * 53 + [1.0] * 16 + [0.0] * 168)
    assert found is not None
    count, total = 239, -37
    half = 1.959964 * math.sqrt(70 - total**2 / count) / count
    assert found.mean == pytest.approx(-37 / 237)
    assert (found.interval.low, found.interval.high) == (
        pytest.approx(total / count - half),
        pytest.approx(total / count + half),
    )


def test_outcomes_separate_when_each_side_agrees_and_both_differ():
    assert separate(0, 2, 3, 0)
    assert separate(1, 0, 0, 1)
    assert not separate(1, 1, 3, 0)
    assert not separate(2, 0, 3, 0)
    assert not separate(0, 0, 3, 0)


@pytest.mark.parametrize(
    ("now", "then", "needed"),
    [((0, 1), (1, 1), 2), ((2, 3), (3, 3), 14), ((1, 2), (2, 2), 9), ((3, 3), (3, 3), None)],
)
def test_recommended_repetitions_are_the_least_significant(now, then, needed):
    assert repetitions_to_tell(*now, *then) == needed
    if needed is not None and now != (0, 1):
        rate, rate_then = now[0] / now[1], then[0] / then[1]
        passed, passed_then = round(rate * needed), round(rate_then * needed)
        assert fisher_exact(passed, needed - passed, passed_then, needed - passed_then) <= 0.05


def test_undetectable_difference_is_reported_as_such():
    assert repetitions_to_tell(999, 1000, 1000, 1000) is None
