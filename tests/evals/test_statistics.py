"""Statistics of repetitions and pairs of outcomes: known values, and properties for any input."""

from __future__ import annotations

import itertools
import math
import random

import pytest
import scipy  # imports its modules when they are used
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evals_app.analysis.statistics import (
    MAX_EXACT_SIGNS,
    paired_effect,
    pass_hat_k,
    sign_flip,
    spread,
)
from sessions_app.statistics import wilson

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
    statistics = spread([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
    assert statistics is not None
    assert (statistics.mean, statistics.low, statistics.high) == (5.0, 2.0, 9.0)
    assert statistics.deviation == pytest.approx(math.sqrt(32 / 7))
    single = spread([0.5])
    assert single is not None
    assert single.deviation is None


@given(RATES, RATES)
def test_the_permutation_test_counts_every_choice_of_signs(before, after):
    thirds = [round(3 * (right - left)) for left, right in zip(before, after, strict=False)]
    signs = itertools.product((-1, 1), repeat=len(thirds))
    sums = [abs(sum(sign * third for sign, third in zip(chosen, thirds, strict=True))) for chosen in signs]
    expected = sum(item >= abs(sum(thirds)) for item in sums) / len(sums)
    assert sign_flip([third / 3 for third in thirds]) == pytest.approx(expected)


SCORES = st.integers(-(2**20), 2**20).map(lambda number: number / 2**20)
"""Numbers whose sums are exact: of others, scipy and we see ties differently."""


@given(st.lists(SCORES, min_size=2, max_size=MAX_EXACT_SIGNS))
@settings(max_examples=settings.default.max_examples // 5)
def test_permutation_test_of_scores_equals_that_of_scipy(differences):
    assume(all(differences))
    expected = scipy.stats.permutation_test(
        (differences,),
        lambda values, axis: values.sum(axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=1 << 17,
    )
    assert sign_flip(differences) == pytest.approx(min(1.0, expected.pvalue), abs=1e-9)


@pytest.mark.parametrize("repetitions", [11, 12, 13, 17, 20])
def test_permutation_test_of_many_repetitions_equals_scipy(repetitions):
    draw = random.Random(repetitions)
    for _ in range(10):
        rates = [(draw.randint(0, repetitions), draw.randint(0, repetitions)) for _ in range(9)]
        differences = [after / repetitions - before / repetitions for before, after in rates]
        moved = [after - before for before, after in rates if after != before]
        expected = scipy.stats.permutation_test(
            (moved,),
            lambda values, axis: values.sum(axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=1 << 17,
        )
        assert sign_flip(differences) == pytest.approx(min(1.0, expected.pvalue))


def test_sampled_permutation_test_is_repeatable_and_near_scipy():
    draw = random.Random(3)
    differences = [draw.gauss(0.02, 0.1) for _ in range(60)]
    expected = scipy.stats.permutation_test(
        (differences,),
        lambda values, axis: values.sum(axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=50_000,
        rng=1,
    )
    assert sign_flip(differences) == pytest.approx(expected.pvalue, abs=0.01)
    assert sign_flip(differences) == sign_flip(differences)


@given(st.lists(st.sampled_from([-1.0, -2 / 3, -0.5, 0.0, 1 / 3, 1.0]), min_size=1, max_size=30))
def test_the_interval_of_an_effect_holds_it_and_mirrors(differences):
    statistics, mirrored = (
        paired_effect(differences),
        paired_effect([-difference for difference in differences]),
    )
    assert statistics is not None
    assert mirrored is not None
    assert -1 <= statistics.interval.low <= statistics.mean <= statistics.interval.high <= 1
    assert statistics.interval.low == pytest.approx(-mirrored.interval.high)


def test_the_interval_of_an_effect_is_agresti_and_min_s():
    """53 pairs lost, 16 won of 237 (their adjusted Wald interval, worked by hand: (16-53)/239 ± 1.96·0.0341)."""
    statistics = paired_effect([-1.0] * 53 + [1.0] * 16 + [0.0] * 168)
    assert statistics is not None
    count, total = 239, -37
    half = 1.959964 * math.sqrt(70 - total**2 / count) / count
    assert statistics.mean == pytest.approx(-37 / 237)
    assert (statistics.interval.low, statistics.interval.high) == (
        pytest.approx(total / count - half),
        pytest.approx(total / count + half),
    )
