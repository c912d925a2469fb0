"""Template filters that format numbers of results."""

from __future__ import annotations

import pytest

from evals_app.analysis.outcomes import Outcomes, Sameness
from evals_app.analysis.statistics import format_percent
from evals_app.templatetags import eval_results as filters
from sessions_app.templatetags.devui import money


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "–"),
        (0.0, "0 %"),
        (1.0, "100 %"),
        (2 / 3, "67 %"),
        (0.996, "99.6 %"),
        (0.99999, ">99.9 %"),
        (0.00001, "<0.1 %"),
        (0.002, "0.2 %"),
    ],
)
def test_only_all_and_nothing_are_a_hundred_and_none_in_a_hundred(value, message):
    assert format_percent(value) == message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "–"),
        (-0.125, "−12.5 points"),
        (0.1, "+10.0 points"),
        (0.0, "±0 points"),
        (-0.0001, "±0 points"),
    ],
)
def test_a_difference_of_rates_has_its_sign(value, message):
    assert filters.points(value) == message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "unknown"),
        (0.0, "EUR 0.00"),
        (0.02, "EUR 0.0200"),
        (0.015, "EUR 0.0150"),
        (1234.5, "EUR 1,234.50"),
        (0.00123456, "EUR 0.0012"),
        (0.0000778, "EUR 0.000078"),
        (0.99999, "EUR 1.0000"),
    ],
)
def test_costs_have_equal_decimals_and_unknown_is_not_zero(value, message):
    assert money(value, "EUR") == message


def test_changes_chances_and_shares_are_rounded():
    assert [filters.change(ratio) for ratio in (None, 1.0, 1.12, 0.5)] == ["", "the same", "+12 %", "−50 %"]
    assert [filters.chance(value) for value in (None, 0.03125, 0.00001)] == ["", "p = 0.031", "p < 0.0001"]
    assert [filters.along(value) for value in (None, 0.25, 1 / 3)] == ["0", "25", "33.33"]


def test_many_repetitions_are_counted_not_drawn():
    same = Sameness("c", "m", "d", "j")
    assert filters.pips(Outcomes(same, 1, 1, 1)) == ["passed", "failed", "incomplete"]
    assert filters.pips(Outcomes(same, 20, 1)) == []


def test_chances_of_many_repetitions_are_shown_at_doublings_and_for_all():
    chances = [(k, 1 / k) for k in range(1, 144)]
    assert [k for k, _ in filters.at_doublings(chances)] == [1, 2, 4, 8, 16, 32, 64, 128, 143]
    assert filters.at_doublings([]) == []
