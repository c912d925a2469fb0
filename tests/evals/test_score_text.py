"""Scores beside their thresholds: relations that are shown are true."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from evals_app.analysis.figure_text import format_amount
from evals_app.metrics.score_text import describe_score, format_score


def describe(score, threshold, status, reason=""):
    return describe_score(
        SimpleNamespace(metric="m", score=score, threshold=threshold, status=status, reason=reason)
    )


@pytest.mark.parametrize(
    ("score", "threshold", "status", "text"),
    [
        (0.5, 0.5, "passed", "m 0.5 ≥ 0.5"),
        (0.25, 0.5, "failed", "m 0.25 < 0.5"),
        (0.1, 0.8, "passed", "m passed (0.1; threshold 0.8)"),
        (0.9, 0.8, "failed", "m failed (0.9; threshold 0.8)"),
        (0.8, 0.8, "failed", "m failed (0.8; threshold 0.8)"),
        (None, 0.8, "failed", "m failed (–; threshold 0.8)"),
        (1.0, None, "passed", "m passed (1; threshold –)"),
        (0.79999999999, 0.8, "failed", "m 0.79999999999 < 0.8"),
        (0.3, 0.1 + 0.2, "failed", "m 0.29999999999999999 < 0.30000000000000004"),
        (0.8004, 0.8, "passed", "m 0.8004 ≥ 0.8"),
        (1e-30, 2e-30, "failed", "m 1e-30 < 2e-30"),
        (-0.0001, 0.0, "failed", "m -0.0001 < 0"),
        (85.0, 0.8, "passed", "m 85 ≥ 0.8"),
        (1e300, 0.8, "passed", "m 1e+300 ≥ 0.8"),
        (-1e300, 1e22, "failed", "m -1e+300 < 1e+22"),
        (9007199254740993.0, 0.5, "passed", "m 9007199254740992 ≥ 0.5"),
    ],
)
def test_relations_are_true(score, threshold, status, text):
    assert describe(score, threshold, status) == text


def test_reason_of_a_failure_is_shown():
    assert describe(0.0, 0.8, "failed", "No answer\nis expected.") == "m 0 < 0.8: No answer is expected."
    assert describe(None, 0.8, "not_evaluated", "No judge.") == "m: No judge."


def test_three_decimals_are_enough_alone():
    assert [format_score(value) for value in (2 / 3, 1.0, 0.0001, None)] == ["0.667", "1", "0", "–"]


@pytest.mark.parametrize(
    ("name", "value", "limit", "texts"),
    [
        ("max_cost", 1.00001, 1.0, ("1.00001 USD", "1 USD")),
        ("max_tokens", 100.4, 100.0, ("100.4 tokens", "100.0 tokens")),
        ("max_case_latency", 2.5, 2.0, ("2.5 s", "2 s")),
    ],
)
def test_amounts_above_a_limit_differ_from_it(name, value, limit, texts):
    assert (
        format_amount(name, value, "USD", other=limit),
        format_amount(name, limit, "USD", other=value),
    ) == texts
