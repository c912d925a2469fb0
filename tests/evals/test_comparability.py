"""Outcomes that are judged again by other metrics and thresholds."""

from __future__ import annotations

import json

import pytest

from evals_app.analysis import baselines
from evals_app.analysis.case_verdicts import Verdict
from evals_app.analysis.comparability import StoredScore, find_basis, judge_again, read_judging
from evals_app.models import EvalRun
from tests.evals import stored_runs
from tests.evals.stored_runs import cases, failing, passing

pytestmark = pytest.mark.django_db


def judging(criteria, **more):
    return read_judging(json.dumps({"criteria": criteria, **more}))


def test_basis_is_the_metrics_of_both_with_the_thresholds_of_now():
    earlier = judging({"a": 0.5, "b": {"threshold": 1.0, "match": "exact"}, "gone": 1.0})
    later = judging({"a": {"threshold": 0.7}, "b": {"threshold": 1.0, "match": "any"}, "new": 1.0})
    assert find_basis(earlier, later) == {"a": 0.7}
    assert find_basis(judging({"x": 1.0}), later) is None
    assert find_basis(judging({"a": 0.5}, user_simulator_config={"model": "m"}), later) is None


def test_settings_of_the_gate_and_functions_of_other_metrics_do_not_matter():
    plain = judging({"a": 0.5})
    assert judging({"a": 0.5}, devui_gate={"max_cost": 1}) == plain
    function = {"code_config": {"name": "mine.a"}}
    assert find_basis(plain, judging({"a": 0.5}, custom_metrics={"other": function})) == {"a": 0.5}
    assert find_basis(plain, judging({"a": 0.5}, custom_metrics={"a": function})) is None


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (StoredScore(0.9, 0.5, "passed"), True),
        (StoredScore(0.6, 0.5, "passed"), False),
        (StoredScore(0.4, 0.5, "failed"), False),
        (StoredScore(0.7, 0.5, "failed"), None),
        (StoredScore(None, 0.5, "failed"), None),
        (StoredScore(0.2, 0.7, "passed"), True),
        (StoredScore(0.9, 0.5, "not_evaluated"), None),
    ],
)
def test_score_is_judged_by_the_other_threshold(score, expected):
    assert judge_again("passed", "", {"a": score}, {"a": 0.7}) is expected


def test_attempt_without_a_score_or_an_outcome_has_none():
    assert judge_again("passed", "", {}, {"a": 0.7}) is None
    assert judge_again("cancelled", "", {"a": StoredScore(1.0, 0.5, "passed")}, {"a": 0.7}) is None
    assert judge_again("error", "RuntimeError", {}, {"a": 0.7}) is False
    assert judge_again("error", "NoModelAccess", {}, {"a": 0.7}) is None
    failed = {"a": StoredScore(0.1, 0.5, "failed")}
    assert judge_again("failed", "", failed, {"a": 0.7, "b": 1.0}) is False, "one failed metric is enough"


def test_history_is_judged_again_like_the_baseline():
    of = stored_runs.version(cases("a"))
    vague = stored_runs.outcome("passed", [1.0, 0.6], stored_runs.PARIS)
    stored_runs.run(of, {"a": [vague] * 2}, code="v0")
    before = stored_runs.run(of, {"a": [passing()] * 2}, code="v1")
    config = {"criteria": {**stored_runs.CRITERIA, "response_match_score": 0.8}}
    after = stored_runs.run(of, {"a": [passing()] * 2}, code="v2", config=config)
    [change] = baselines.compare_runs(before, after).cases
    assert change.earlier.by_run == [(2, 2), (0, 2)]


def test_removed_metric_leaves_the_others_comparable():
    of = stored_runs.version(cases("a"))
    before = stored_runs.run(of, {"a": [failing()] * 5}, code="v1")
    config = {"criteria": {"response_match_score": 0.5}}
    after = stored_runs.run(of, {"a": [passing()] * 5}, code="v2", config=config)
    [change] = baselines.compare_runs(before, after).cases
    assert (change.verdict, change.before.passed) == (Verdict.UNCHANGED, 5), "it failed by the removed metric"


def test_previous_is_found_case_by_case():
    of = stored_runs.version(cases("a", "b", "c"))
    first = stored_runs.run(of, {name: [passing()] for name in "abc"})
    second = stored_runs.run(of, {"a": [failing()]})
    later = stored_runs.run(of, {name: [passing()] for name in "abc"}, code="v2")
    reference = baselines.require_reference(later, "previous")
    assert [run.pk for run in reference.runs] == [first.pk, second.pk]
    assert {key.id: outcomes.run for key, outcomes in reference.outcomes.items()} == {
        "a": second.pk,
        "b": first.pk,
        "c": first.pk,
    }


def test_number_of_queries_does_not_grow_with_earlier_runs(django_assert_num_queries):
    of = stored_runs.version(cases("a", "b"))
    outcomes = {"a": [passing()], "b": [passing()]}
    changed = {"criteria": {**stored_runs.CRITERIA, "response_match_score": 0.8}}
    counts = []
    for _ in range(3):  # the first look reads the cases of the version
        for config in (None, changed, None):
            stored_runs.run(of, outcomes, config=config)
        now = stored_runs.run(of, outcomes, code="v2", config=changed)
        now = EvalRun.objects.select_related("evalset", "version").get(pk=now.pk)
        with django_assert_num_queries(14, exact=False) as captured:
            baselines.compare_with(baselines.require_reference(now, "previous"), now)
        counts.append(len(captured))
    assert counts[1] == counts[2]
