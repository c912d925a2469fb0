"""Verdicts of a comparison of two runs: regressed, fixed, flaky, unclear, and their reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evals_app.analysis.case_verdicts import Verdict
from evals_app.analysis.comparison import compare
from evals_app.analysis.outcomes import CaseKey, Outcomes, PastRun, Sameness
from evals_app.analysis.score_changes import compare_scores

THEN = Sameness(code="a", models="m", data="d", judged_by="j")
NOW = replace(THEN, code="b")
OLDER = replace(THEN, code="older")
CASE = CaseKey("case")


def of(passed, failed=0, same=NOW, **more):
    return Outcomes(same, passed, failed, **more)


def past(passed, failed=0, same=THEN, runs=1):
    """Return as many earlier runs, with the outcomes divided among them."""
    return [PastRun(same, passed // runs, failed // runs, f"run {number}") for number in range(runs)]


def judge(before, after, *history, **more):
    runs = [run for runs in history for run in runs]
    return compare({CASE: before}, {CASE: after}, {CASE: runs}, **more).cases[0]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((1, 0), (0, 1), Verdict.UNCLEAR),
        ((2, 0), (0, 2), Verdict.UNCLEAR),
        ((3, 0), (0, 3), Verdict.UNCLEAR),
        ((5, 0), (0, 5), Verdict.REGRESSED),
        ((0, 5), (5, 0), Verdict.FIXED),
        ((10, 0), (4, 6), Verdict.REGRESSED),
        ((4, 6), (10, 0), Verdict.FIXED),
        ((10, 0), (9, 1), Verdict.UNCLEAR),
        ((3, 0), (3, 0), Verdict.UNCHANGED),
        ((0, 2), (0, 3), Verdict.UNCHANGED),
        ((2, 1), (2, 1), Verdict.FLAKY),
        ((3, 2), (2, 3), Verdict.FLAKY),
    ],
)
def test_verdict_without_history(before, after, expected):
    assert judge(of(*before, same=THEN), of(*after)).verdict == expected


def test_history_makes_few_repetitions_significant():
    change = judge(of(2, same=THEN), of(0, 2), past(10, runs=5))
    assert change.verdict == Verdict.REGRESSED
    assert change.because == ("0 of 2 passed now, 12 of 12 earlier (baseline and 5 earlier runs): p = 0.022.")
    assert change.probability == pytest.approx(2 / 91)


def test_first_failure_is_unclear_and_says_how_many_repetitions_decide():
    change = judge(of(1, same=THEN), of(0, 1), past(5, runs=5))
    assert change.verdict == Verdict.UNCLEAR
    assert change.looks_worse
    assert change.because == "It failed now and passed in all 6 earlier attempts."
    assert (change.repetitions, change.of_both_runs) == (19, True)
    assert judge(of(1, same=THEN), of(0, 2), past(5, runs=5)).verdict != Verdict.UNCHANGED


def test_first_failure_without_history_needs_repetitions_of_both_runs():
    change = judge(of(1, same=THEN), of(0, 1))
    assert change.because == "It failed now and passed in the only earlier attempt."
    assert (change.repetitions, change.of_both_runs) == (19, True)
    rare = judge(of(2, 1, same=THEN), of(0, 3))
    assert rare.verdict == Verdict.FLAKY


def test_probability_equal_to_the_level_is_significant():
    assert judge(of(1, same=THEN), of(0, 1), past(38)).verdict == Verdict.REGRESSED
    assert judge(of(1, same=THEN), of(0, 1), past(37)).verdict == Verdict.UNCLEAR


def test_first_pass_is_unclear_and_looks_better():
    change = judge(of(0, 1, same=THEN), of(1), past(0, 5, runs=5))
    assert (change.verdict, change.looks_worse) == (Verdict.UNCLEAR, False)
    assert change.because == "It passed now and failed in all 6 earlier attempts."


def test_varying_history_makes_a_failure_flaky_with_its_rate():
    change = judge(of(1, same=THEN), of(0, 1), past(5, 5, runs=5))
    assert change.verdict == Verdict.FLAKY
    assert change.because == (
        "Passes 50 % of the time (95 % interval 25 % to 75 %, 12 attempts). Its rate has not visibly changed."
    )


def test_flaky_case_whose_rate_falls_is_regressed():
    change = judge(of(8, 2, same=THEN), of(1, 9), past(40, 10, runs=5))
    assert change.verdict == Verdict.REGRESSED


def test_history_before_a_repair_does_not_hide_a_new_failure():
    repaired = past(0, 30, OLDER, runs=10)
    assert judge(of(5, same=THEN), of(0, 5), repaired).verdict == Verdict.REGRESSED


def test_history_of_other_versions_counts_while_the_rate_stays():
    versions = [past(2, 0, replace(THEN, code=f"v{number}")) for number in range(5)]
    change = judge(of(2, same=THEN), of(0, 2), *versions)
    assert (change.verdict, change.earlier.total) == (Verdict.REGRESSED, 12)


def test_history_of_other_models_does_not_count():
    assert judge(of(2, same=THEN), of(0, 2), past(20, same=replace(THEN, models="other"))).earlier.total == 2


def test_proven_fall_of_the_same_agent_is_a_regression():
    keys = [CaseKey(str(number)) for number in range(20)]
    result = compare({key: of(5) for key in keys}, {key: of(0, 5) for key in keys})
    assert result.counts == {Verdict.UNCLEAR: 20}
    assert result.regressions == [
        "The run as a whole: the pass rate fell by 100.0 points over 20 cases, all of them fell"
        " (p < 0.0001, exact permutation test of all cases)."
    ]


def test_changed_case_of_the_same_agent_is_unclear_and_not_flaky():
    change = judge(of(1), of(0, 1))
    assert (change.verdict, change.looks_worse) == (Verdict.UNCLEAR, True)


def test_solid_cases_cost_no_power_and_flaky_ones_do():
    fallen = {CASE: of(5, same=THEN)}, {CASE: of(3, 2)}, {CASE: past(25, runs=5)}

    def verdict_beside(rate):
        keys = [CaseKey(str(number)) for number in range(20)]
        result = compare(
            fallen[0] | {key: of(*rate, same=THEN) for key in keys},
            fallen[1] | {key: of(*rate) for key in keys},
            fallen[2] | {key: past(5 * rate[0], 5 * rate[1], runs=5) for key in keys},
        )
        return next(case.verdict for case in result.cases if case.key == CASE)

    assert verdict_beside((5, 0)) == Verdict.REGRESSED
    assert verdict_beside((4, 1)) == Verdict.UNCLEAR


def test_smaller_level_asks_for_more_evidence():
    assert judge(of(2, same=THEN), of(0, 2), past(10, runs=5), level=0.01).verdict == Verdict.UNCLEAR


def test_confirmation_is_tested_against_history_without_baseline():
    runs = (of(1, same=THEN), of(0, 1), past(5, runs=5))
    assert judge(*runs).can_confirm
    confirmed = judge(*runs, fresh={CASE: of(0, 5)})
    assert confirmed.verdict == Verdict.REGRESSED
    assert confirmed.because.startswith(
        "0 of 5 fresh repetitions passed, 5 of 5 attempts of 5 runs before the baseline: p ="
    )
    refuted = judge(*runs, fresh={CASE: of(5)})
    assert refuted.verdict == Verdict.UNCHANGED


def test_suspicion_without_other_history_cannot_be_confirmed():
    assert not judge(of(1, same=THEN), of(0, 1)).can_confirm
    assert not judge(of(1, same=THEN), of(0, 1), past(2, runs=2)).can_confirm


def test_case_that_was_not_repeated_cannot_regress_beside_a_confirmation():
    cases = CaseKey("a"), CaseKey("b")
    result = compare(
        {key: of(3, same=THEN) for key in cases},
        {key: of(0, 3) for key in cases},
        {key: past(15, runs=5) for key in cases},
        fresh={CaseKey("a"): of(0, 5)},
    )
    assert {case.key.id: case.verdict for case in result.cases} == {
        "a": Verdict.REGRESSED,
        "b": Verdict.UNCLEAR,
    }
    assert [case.key.id for case in result.to_confirm] == ["b"]


def test_changed_or_differently_judged_case_is_not_compared():
    changed = judge(of(3, same=replace(THEN, data="other")), of(0, 3))
    assert (changed.verdict, changed.difference) == (Verdict.NOT_COMPARABLE, None)
    assert "changed" in changed.because
    otherwise = judge(of(3, same=replace(THEN, judged_by="other")), of(0, 3))
    assert "metrics" in otherwise.because


def test_case_that_was_not_judged_or_did_not_run_is_not_compared():
    assert "judged after" in judge(of(3, same=THEN), of(0, unjudged=3)).because
    assert "did not run before" in judge(of(0, same=THEN), of(3)).because


def test_run_that_lost_too_many_attempts_is_not_comparable():
    keys = [CaseKey(str(number)) for number in range(4)]
    before = {key: of(5, same=THEN) for key in keys}
    comparison = compare(before, {key: of(0, 3, unjudged=2, unavailable=2) for key in keys})
    assert comparison.counts == {Verdict.NOT_COMPARABLE: 4}
    assert comparison.whole.refusal.startswith("8 of 20 attempts of the run after have no outcome")
    assert not comparison.regressions
    few = compare(before, {key: of(0, 4, unjudged=1, unavailable=1) for key in keys})
    assert few.whole.is_worse


def test_new_and_removed_cases_are_listed_and_worst_come_first():
    result = compare(
        {CaseKey("a"): of(1, same=THEN), CaseKey("gone"): of(1, same=THEN), CaseKey("c"): of(5, same=THEN)},
        {CaseKey("new"): of(1), CaseKey("a"): of(1), CaseKey("c"): of(0, 5)},
    )
    assert [(case.key.id, str(case.verdict)) for case in result.cases] == [
        ("c", "regressed"),
        ("new", "new"),
        ("gone", "gone"),
        ("a", "unchanged"),
    ]
    assert result.counts[Verdict.NEW] == 1


def compare_passes(changes, before=1, after=1):
    """Return two runs in which each change is (passed before, passed after)."""
    left = {
        CaseKey(str(number)): of(change, before - change, THEN) for number, (change, _) in enumerate(changes)
    }
    right = {CaseKey(str(number)): of(two, after - two) for number, (_, two) in enumerate(changes)}
    return compare(left, right)


def test_run_as_a_whole_regresses_by_many_small_drops():
    result = compare_passes([(1, 0)] * 12 + [(1, 1)] * 8)
    assert (result.whole.cases, result.whole.worse, result.whole.better) == (20, 12, 0)
    assert result.whole.probability == pytest.approx(2 / 2**12)
    assert result.whole.is_worse
    assert not result.cases_with(Verdict.REGRESSED)
    assert result.regressions == [
        "The run as a whole: the pass rate fell by 60.0 points over 20 cases, 12 of them fell"
        " (p = 0.00049, exact permutation test of all cases)."
    ]
    assert len(result.doubts) == 12


def test_run_as_a_whole_improves():
    result = compare_passes([(0, 1)] * 12 + [(1, 1)] * 8)
    assert result.whole.is_better
    assert not result.whole.is_worse


def test_whole_without_comparable_cases_proves_nothing():
    result = compare({}, {CASE: of(1)})
    assert result.whole.cases == 0
    assert result.whole.effect is None
    assert not result.whole.is_worse
    assert result.regressions == []


def test_usage_is_compared_over_cases_known_in_both_runs():
    result = compare(
        {
            CASE: of(1, same=THEN, seconds=2.0, tokens=10.0),
            CaseKey("b"): of(1, same=THEN, seconds=4.0, cost=1.0),
        },
        {CASE: of(1, seconds=3.0, tokens=15.0), CaseKey("b"): of(1, seconds=6.0)},
    )
    amounts = {amount.name: amount for amount in result.amounts}
    assert (amounts["seconds"].before, amounts["seconds"].after, amounts["seconds"].ratio) == (3.0, 4.5, 1.5)
    assert (amounts["tokens"].cases, amounts["tokens"].after) == (1, 15.0)
    assert (amounts["cost"].cases, amounts["cost"].before, amounts["cost"].ratio) == (0, None, None)


def test_scores_that_drift_above_the_threshold_are_significant():
    keys = [CaseKey(str(number)) for number in range(10)]
    before = {"rouge": dict.fromkeys(keys, 0.95), "tools": dict.fromkeys(keys, 1.0)}
    after = {
        "rouge": {key: 0.85 + 0.001 * number for number, key in enumerate(keys)},
        "tools": dict.fromkeys(keys, 1.0),
    }
    rouge, tools = compare_scores(before, after, 0.05)
    assert (rouge.metric, rouge.is_worse, rouge.cases) == ("rouge", True, 10)
    assert rouge.difference == pytest.approx(-0.0955)
    assert rouge.probability == pytest.approx(2 * 2 / 2**10)
    assert (tools.probability, tools.is_worse, tools.is_better) == (1.0, False, False)


def test_scores_without_a_common_case_are_not_compared():
    assert compare_scores({"a": {CASE: 1.0}}, {"a": {CaseKey("other"): 1.0}, "b": {CASE: 1.0}}, 0.05) == []
