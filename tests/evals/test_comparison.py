"""Regressed, fixed, flaky or unclear: what the issue of a comparison rests on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evals_app.analysis.comparison import CaseKey, Outcomes, Past, Sameness, Verdict, compare

THEN = Sameness(code="a", models="m", data="d", judged_by="j")
NOW = replace(THEN, code="b")
CASE = CaseKey("case")


def of(passed, failed=0, same=NOW, **more):
    return Outcomes(same, passed, failed, **more)


def verdict(before, after, *history):
    found = compare({CASE: before}, {CASE: after}, {CASE: list(history)})
    return found.cases[0]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((3, 0), (0, 3), Verdict.REGRESSED),
        ((2, 0), (0, 2), Verdict.REGRESSED),
        ((0, 3), (3, 0), Verdict.FIXED),
        ((1, 0), (0, 1), Verdict.REGRESSED),
        ((3, 0), (3, 0), Verdict.UNCHANGED),
        ((0, 2), (0, 3), Verdict.UNCHANGED),
        ((3, 0), (2, 1), Verdict.FLAKY),
        ((2, 1), (2, 1), Verdict.FLAKY),
        ((10, 0), (4, 6), Verdict.REGRESSED),
        ((4, 6), (10, 0), Verdict.FIXED),
        ((10, 0), (9, 1), Verdict.FLAKY),
    ],
)
def test_regression_needs_separated_outcomes_or_significant_test(before, after, expected):
    assert verdict(of(*before, same=THEN), of(*after)).verdict == expected


def test_one_repetition_is_not_enough_if_history_varies():
    found = verdict(of(1, same=THEN), of(0, 1), Past(5, 0), Past(3, 1))
    assert found.verdict == Verdict.UNCLEAR
    assert "varied" in found.because
    assert found.repetitions == 2


def test_one_repetition_is_enough_if_history_never_varied():
    found = verdict(of(1, same=THEN), of(0, 1), Past(5, 0), Past(0, 1))
    assert found.verdict == Verdict.REGRESSED
    assert "no stored outcome of it varied" in found.because


def test_history_that_varies_does_not_outweigh_repetitions_that_separate():
    assert verdict(of(3, same=THEN), of(0, 3), Past(1, 1)).verdict == Verdict.REGRESSED


def test_single_outcomes_of_the_same_code_data_and_models_that_differ_are_flaky():
    found = verdict(of(1), of(0, 1))
    assert found.verdict == Verdict.FLAKY
    assert "same code, data and models came" in found.because


def test_a_case_that_changed_or_is_judged_otherwise_is_not_compared():
    changed = verdict(of(3, same=replace(THEN, data="other")), of(0, 3))
    assert (changed.verdict, changed.difference) == (Verdict.NOT_COMPARABLE, None)
    assert "changed" in changed.because
    otherwise = verdict(of(3, same=replace(THEN, judged_by="other")), of(0, 3))
    assert "metrics" in otherwise.because


def test_a_case_that_was_not_judged_or_did_not_run_is_not_compared():
    assert "judged after" in verdict(of(3, same=THEN), of(0, unjudged=3)).because
    assert "did not run before" in verdict(of(0, same=THEN), of(3)).because


def test_new_and_removed_cases_are_listed_and_worst_come_first():
    found = compare(
        {CaseKey("a"): of(1, same=THEN), CaseKey("gone"): of(1, same=THEN), CaseKey("c"): of(2, same=THEN)},
        {CaseKey("new"): of(1), CaseKey("a"): of(1), CaseKey("c"): of(0, 2)},
    )
    assert [(case.key.id, str(case.verdict)) for case in found.cases] == [
        ("c", "regressed"),
        ("new", "new"),
        ("gone", "gone"),
        ("a", "unchanged"),
    ]
    assert found.counts[Verdict.NEW] == 1


def runs(changes, before=1, after=1):
    """Return two runs in which each change is (passed before, passed after)."""
    left = {CaseKey(str(number)): of(one, before - one, THEN) for number, (one, _) in enumerate(changes)}
    right = {CaseKey(str(number)): of(two, after - two) for number, (_, two) in enumerate(changes)}
    return compare(left, right)


def test_the_whole_is_judged_by_mcnemar_when_each_case_ran_once():
    found = runs([(1, 0)] * 9 + [(0, 1)] + [(1, 1)] * 10)
    assert (found.whole.cases, found.whole.worse, found.whole.better) == (20, 9, 1)
    assert found.whole.probability == pytest.approx(0.021484375)
    assert found.whole.test == "exact McNemar test"
    assert found.whole.is_worse
    assert not found.whole.is_better
    assert found.regressions[-1].startswith(
        "The run as a whole: the pass rate fell by 40.0 points over 20 cases"
    )


def test_the_whole_is_judged_by_permutation_when_cases_were_repeated():
    found = runs([(3, 2)] * 8, before=3, after=3)
    assert found.whole.test == "exact paired permutation test"
    assert found.whole.probability == pytest.approx(2 / 2**8)
    assert found.whole.is_worse
    assert not found.of(Verdict.REGRESSED)
    assert len(found.regressions) == 1
    assert len(found.doubts) == 8


def test_a_whole_of_nothing_proves_nothing():
    found = compare({}, {CASE: of(1)})
    assert found.whole.cases == 0
    assert found.whole.effect is None
    assert not found.whole.is_worse
    assert found.regressions == []


def test_usage_is_compared_over_cases_known_in_both_runs():
    found = compare(
        {
            CASE: of(1, same=THEN, seconds=2.0, tokens=10.0),
            CaseKey("b"): of(1, same=THEN, seconds=4.0, cost=1.0),
        },
        {CASE: of(1, seconds=3.0, tokens=15.0), CaseKey("b"): of(1, seconds=6.0)},
    )
    amounts = {amount.name: amount for amount in found.amounts}
    assert (amounts["seconds"].before, amounts["seconds"].after, amounts["seconds"].ratio) == (3.0, 4.5, 1.5)
    assert (amounts["tokens"].cases, amounts["tokens"].after) == (1, 15.0)
    assert (amounts["cost"].cases, amounts["cost"].before, amounts["cost"].ratio) == (0, None, None)
