"""Read models of results: causes, repetitions, baselines and comparisons."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from evals_app.analysis import baselines, case_matrix, repetitions, run_summary, trends
from evals_app.analysis.case_matrix import Filters
from evals_app.analysis.case_verdicts import Verdict
from evals_app.analysis.ci_gate import Gate
from evals_app.analysis.comparability import read_cases
from evals_app.analysis.exports import comparison_json, run_json
from evals_app.analysis.run_differences import read_differences
from evals_app.models import CONFIRMATION, EvalAttempt, EvalRun
from evals_app.runs import attempt_status
from evals_app.runs.writes import notes, runs
from sessions_app.store.errors import BadInput, NotFound
from tests.evals import stored_runs
from tests.evals.builders import case, turn
from tests.evals.stored_runs import broken, cases, failing, passing

pytestmark = pytest.mark.django_db

OSLO = [{"name": "get_weather", "args": {"city": "Oslo"}}]
MORE = [*stored_runs.PARIS, {"name": "book", "args": {}}]


def causes_of(run):
    return dict(run.attempts.values_list("case_id", "cause"))


def test_failure_causes_are_grouped():
    wordy = stored_runs.outcome("failed", [1.0, 0.2], stored_runs.PARIS)
    run = stored_runs.run(
        stored_runs.version(cases("fine", "argument", "missing", "extra", "answer", "raises", "raises_too")),
        {
            "fine": [passing()],
            "argument": [failing(OSLO)],
            "missing": [failing()],
            "extra": [failing(MORE)],
            "answer": [wordy],
            "raises": [broken("station 4711 is down")],
            "raises_too": [broken("station 1234 is down\nat once")],
        },
    )
    assert causes_of(run) == {
        "fine": "",
        "argument": "get_weather: other city",
        "missing": "get_weather: not called",
        "extra": "book: not expected",
        "answer": "response match: below its threshold",
        "raises": "RuntimeError: station … is down",
        "raises_too": "RuntimeError: station … is down",
    }


def test_a_metric_that_could_not_run_and_a_state_that_differs_are_causes():
    state = stored_runs.MetricScore(
        0,
        "devui_state_match",
        None,
        0.5,
        1.0,
        "failed",
        details={"state": [{"path": "user:n", "matches": False}]},
    )
    unrun = stored_runs.MetricScore(
        0, "safety_v1", None, None, 1.0, "not_evaluated", "needs Vertex\nand more"
    )
    run = stored_runs.run(
        stored_runs.version(cases("state", "unrun", "unjudged")),
        {
            "state": [stored_runs.Outcome("failed", scores=[state])],
            "unrun": [stored_runs.Outcome("incomplete", scores=[unrun])],
            "unjudged": [stored_runs.Outcome("incomplete")],
        },
    )
    assert causes_of(run) == {
        "state": "state user:n: not as expected",
        "unrun": "safety gave no verdict: needs Vertex",
        "unjudged": "nothing judged it",
    }


def test_reasons_without_a_verdict_are_listed_or_counted():
    outcomes = {
        name: [
            stored_runs.Outcome(
                "incomplete",
                scores=[
                    stored_runs.MetricScore(
                        0, "safety_v1", None, None, 1.0, "not_evaluated", f"reason {name}"
                    )
                ],
            )
        ]
        for name in "abcdefg"
    }
    summary = run_summary.summary(stored_runs.run(stored_runs.version(cases(*outcomes)), outcomes))
    assert [reason.text for reason in summary.reasons] == [f"reason {name}" for name in "abcde"]
    assert summary.unlisted_reasons == 2


def test_matrix_groups_failures_by_cause_most_common_first():
    run = stored_runs.run(
        stored_runs.version(cases("a", "b", "c", "d", "e")),
        {"a": [passing()], "b": [failing()], "c": [failing(OSLO)], "d": [failing(OSLO)], "e": [broken()]},
    )
    matrix = case_matrix.matrix(run)
    assert [(group.status, group.cause, [row.id for row in group.rows]) for group in matrix.groups] == [
        ("failed", "get_weather: other city", ["c", "d"]),
        ("failed", "get_weather: not called", ["b"]),
        ("error", "RuntimeError: on fire", ["e"]),
        ("passed", "", ["a"]),
    ]
    assert matrix.statuses == [("failed", 3), ("error", 1), ("passed", 1)]


@pytest.mark.parametrize(
    ("query", "case_names"),
    [
        ({"status": "failed"}, ["mixed", "none", "other"]),
        ({"cause": "get_weather: other city"}, ["other"]),
        ({"q": "OTH"}, ["other"]),
        ({"mixed": "1"}, ["mixed"]),
        ({"metric": "response_match_score"}, []),
        ({"metric": "tool_trajectory_avg_score", "status": "failed", "q": "n"}, ["none"]),
        ({"order": "file"}, ["fine", "other", "mixed", "none"]),
        ({"status": "no such", "page": "x", "order": "?"}, ["mixed", "none", "other", "fine"]),
    ],
)
def test_filters_of_the_address_narrow_the_matrix(query, case_names):
    run = stored_runs.run(
        stored_runs.version(cases("fine", "other", "mixed", "none")),
        {
            "fine": [passing(), passing()],
            "other": [failing(OSLO), failing(OSLO)],
            "mixed": [failing(), passing()],
            "none": [failing(), failing()],
        },
    )
    assert [row.id for row in case_matrix.matrix(run, Filters.read(query)).rows] == case_names


def test_repeated_cases_have_rate_interval_and_score_spread():
    run = stored_runs.run(
        stored_runs.version(cases("a", "b")), {"a": [passing(), failing(), passing()], "b": [passing()] * 3}
    )
    row = next(row for row in case_matrix.matrix(run).rows if row.id == "a")
    assert (row.rate.passed, row.rate.total, row.is_flaky) == (2, 3, True)
    assert row.cells[0].spread.varies
    assert row.cells[0].score == pytest.approx(2 / 3)
    tally = case_matrix.tally(run)
    assert tally.rate.value == pytest.approx((2 / 3 + 1) / 2)
    assert [round(chance, 3) for _, chance in tally.reliable] == [0.833, 0.667, 0.5]
    assert tally.flaky == 1


def test_unpriced_tokens_have_unknown_cost_and_priced_ones_a_sum():
    usage = {"total_tokens": 10, "prompt_tokens": 8, "output_tokens": 2}
    unknown = stored_runs.run(
        stored_runs.version(cases("a")), {"a": [passing(**usage, cost=0.5), passing(**usage)]}
    )
    assert (run_summary.summary(unknown).usage.cost, run_summary.summary(unknown).usage.unpriced) == (None, 1)
    priced_run = stored_runs.run(
        stored_runs.version(cases("a")), {"a": [passing(**usage, cost=0.5), passing(**usage, cost=0.25)]}
    )
    assert (run_summary.summary(priced_run).usage.cost, run_summary.summary(priced_run).tokens) == (0.75, 20)
    without = stored_runs.run(stored_runs.version(cases("a")), {"a": [passing()]})
    assert run_summary.summary(without).usage.cost is None


def test_the_cost_of_judges_is_reckoned_by_the_prices_of_the_run():
    judge = {"judge-x": {"prompt": 1_000_000, "output": 0, "cached": 0, "calls": 1}}
    prices = {
        "file": "p.toml",
        "currency": "EUR",
        "price": [{"model": "judge-*", "input": 2.0, "output": 1.0}],
    }
    run = stored_runs.run(
        stored_runs.version(cases("a")), {"a": [passing(judge=judge), passing(judge=judge)]}, prices=prices
    )
    usage = run_summary.summary(run).usage
    assert (usage.judge_cost, usage.currency, usage.judge_tokens) == (4.0, "EUR", 2_000_000)


def test_a_run_is_compared_with_another_case_by_case():
    before = stored_runs.run(
        stored_runs.version([*cases("falls", "rises", "stays", "gone"), case("changed", turn("x", "y"))]),
        {
            "falls": [passing()] * 6,
            "rises": [failing()] * 6,
            "stays": [passing()] * 6,
            "gone": [passing()] * 6,
            "changed": [passing()] * 6,
        },
    )
    after = stored_runs.run(
        stored_runs.version([*cases("new", "stays", "falls", "rises"), case("changed", turn("x", "z"))]),
        {
            "new": [passing()] * 6,
            "falls": [failing()] * 6,
            "rises": [passing()] * 6,
            "stays": [passing()] * 6,
            "changed": [passing()] * 6,
        },
        code="v2",
    )
    comparison = baselines.compare_runs(before, after)
    assert {verdict.key.id: verdict.verdict for verdict in comparison.cases} == {
        "falls": Verdict.REGRESSED,
        "rises": Verdict.FIXED,
        "stays": Verdict.UNCHANGED,
        "gone": Verdict.GONE,
        "new": Verdict.NEW,
        "changed": Verdict.NOT_COMPARABLE,
    }
    fallen = comparison.cases_with(Verdict.REGRESSED)[0]
    assert fallen.after is not None
    assert EvalAttempt.objects.get(pk=fallen.after.attempt).run_id == after.pk
    assert [item.what for item in read_differences(before, after)] == ["code", "evalset"]


def test_outcomes_are_judged_again_by_changed_thresholds():
    of = stored_runs.version(cases("a"))
    vaguer = stored_runs.outcome("passed", [1.0, 0.6], stored_runs.PARIS)
    before = stored_runs.run(of, {"a": [vaguer] * 5})
    spelled = {"criteria": {name: {"threshold": limit} for name, limit in stored_runs.CRITERIA.items()}}
    same = stored_runs.run(of, {"a": [failing()] * 5}, code="v2", config=spelled)
    assert baselines.compare_runs(before, same).cases[0].verdict == Verdict.REGRESSED
    higher = {"criteria": {**stored_runs.CRITERIA, "response_match_score": 0.7}}
    other = stored_runs.run(of, {"a": [failing()] * 5}, code="v3", config=higher)
    [change] = baselines.compare_runs(before, other).cases
    assert (change.verdict, change.before.passed, change.before.failed) == (Verdict.UNCHANGED, 0, 5)


def test_excluded_case_is_neither_removed_nor_regressed():
    of = stored_runs.version(cases("a", "b"))
    comparison = baselines.compare_runs(
        stored_runs.run(of, {"a": [passing()], "b": [passing()]}), stored_runs.run(of, {"a": [passing()]})
    )
    assert {case.key.id: case.verdict for case in comparison.cases} == {
        "a": Verdict.UNCHANGED,
        "b": Verdict.NOT_COMPARABLE,
    }


def test_varying_history_keeps_one_failure_from_being_a_regression():
    of = stored_runs.version(cases("steady", "shaky"))
    stored_runs.run(of, {"steady": [passing()], "shaky": [passing()]}, code="v0")
    stored_runs.run(of, {"steady": [passing()], "shaky": [failing()]}, code="v0")
    before = stored_runs.run(of, {"steady": [passing()] * 8, "shaky": [passing(), failing()] * 4}, code="v1")
    after = stored_runs.run(of, {"steady": [failing()] * 3, "shaky": [failing()] * 3}, code="v2")
    changes = {change.key.id: change for change in baselines.compare_runs(before, after).cases}
    assert (changes["steady"].verdict, changes["steady"].earlier.total) == (Verdict.REGRESSED, 10)
    assert (changes["shaky"].verdict, changes["shaky"].earlier.total) == (Verdict.FLAKY, 10)


def test_experiments_after_the_baseline_are_no_history():
    of = stored_runs.version(cases("a"))
    before = stored_runs.run(of, {"a": [passing()] * 3})
    stored_runs.run(of, {"a": [passing()] * 10}, code="experiment")
    stored_runs.run(of, {"a": [passing()] * 4})
    after = stored_runs.run(of, {"a": [failing()] * 3}, code="v2")
    stored_runs.run(of, {"a": [passing()] * 50}, code="later")
    [change] = baselines.compare_runs(before, after).cases
    assert (change.earlier.total, change.earlier.history_total, change.earlier.runs) == (7, 4, 1)


def test_confirmation_decides_an_unclear_case():
    of = stored_runs.version(cases("a", "b"))
    stored_runs.run(of, {"a": [passing()] * 5, "b": [passing()] * 5}, code="v0")
    before = stored_runs.run(of, {"a": [passing()], "b": [passing()]}, code="v1")
    after = stored_runs.run(of, {"a": [failing()], "b": [passing()]}, code="v2")
    changes = baselines.compare_runs(before, after)
    assert [change.key.id for change in changes.to_confirm] == ["a"]
    confirmation = stored_runs.run(of, {"a": [failing()] * 5}, code="v2")
    EvalRun.objects.filter(pk=confirmation.pk).update(source=CONFIRMATION, repeats=after)
    changes = baselines.compare_runs(before, after)
    assert [(change.key.id, change.verdict) for change in changes.cases_with(Verdict.REGRESSED)] == [
        ("a", Verdict.REGRESSED)
    ]
    assert changes.to_confirm == []
    later = stored_runs.run(of, {"a": [passing()], "b": [passing()]}, code="v3")
    assert baselines.find_reference(later).runs == [after]
    assert confirmation not in baselines.list_comparable_runs(later)


def test_drift_of_scores_above_the_threshold_is_shown():
    names = [f"case{number}" for number in range(8)]
    of = stored_runs.version(cases(*names))
    vaguer = stored_runs.outcome("passed", [1.0, 0.9], stored_runs.PARIS)
    before = stored_runs.run(of, {name: [passing()] for name in names})
    after = stored_runs.run(of, {name: [vaguer] for name in names}, code="v2")
    result = baselines.compare_runs(before, after)
    assert result.counts == {Verdict.UNCHANGED: 8}
    change = next(change for change in result.scores if change.metric == "response_match_score")
    assert (change.is_worse, round(change.before, 3), round(change.after, 3)) == (True, 1.0, 0.9)


def test_different_outcomes_of_same_code_are_unclear_then_flaky():
    of = stored_runs.version(cases("a"))
    before, after = stored_runs.run(of, {"a": [passing()]}), stored_runs.run(of, {"a": [failing()]})
    assert baselines.compare_runs(before, after).cases[0].verdict == Verdict.UNCLEAR
    assert repetitions.read_case_repetitions(after, 0).flaky
    third = stored_runs.run(of, {"a": [failing()]})
    assert baselines.compare_runs(after, third).cases[0].verdict == Verdict.FLAKY
    steady = stored_runs.version(cases("b"), "steady")
    assert not repetitions.read_case_repetitions(stored_runs.run(steady, {"b": [failing()]}), 0).flaky


def test_leftovers_of_a_dead_process_are_no_outcome():
    of = stored_runs.version(cases("a"))
    before = stored_runs.run(of, {"a": [passing()]})
    dead_outcome = stored_runs.Outcome(
        "error", failure=stored_runs.Failure(attempt_status.PROCESS_GONE, "The process has ended.")
    )
    after = stored_runs.run(of, {"a": [dead_outcome]}, code="v2")
    assert baselines.compare_runs(before, after).cases[0].because == "No repetition was judged after."


def test_all_pages_ignore_leftovers_of_a_dead_process():
    of = stored_runs.version(cases("a"))
    dead_outcome = stored_runs.Outcome(
        "error", failure=stored_runs.Failure(attempt_status.PROCESS_GONE, "The process has ended.")
    )
    run = stored_runs.run(of, {"a": [passing(), dead_outcome, passing()]})
    before = stored_runs.run(of, {"a": [passing(), failing(), passing()]}, code="v0")
    [row] = case_matrix.matrix(run).rows
    assert (row.rate.passed, row.rate.total, row.is_flaky) == (2, 2, False)
    assert case_matrix.matrix(run).flaky == 0
    assert not case_matrix.matrix(run, Filters(flaky=True)).rows
    tally = case_matrix.tally(run)
    assert (tally.rate.value, tally.reliable, tally.flaky) == (1.0, [(1, 1.0), (2, 1.0)], 0)
    of_case = repetitions.read_case_repetitions(run, 0)
    assert (of_case.rate.passed, of_case.rate.total, len(of_case.reliable)) == (2, 2, 2)
    [change] = baselines.compare_runs(before, run).cases
    assert (change.after.passed, change.after.failed, change.after.unjudged) == (2, 0, 1)
    points = {point.run.pk: point.rate.value for point in trends.read_evalset_trend(of.evalset).points}
    assert (points[run.pk], points[before.pk]) == (1.0, 2 / 3)
    [facts] = json.loads(run_json.as_json([run]))["runs"]
    assert (facts["rate"]["cases"], facts["rate"]["passed"]) == (1, 1.0)
    exported = comparison_json.comparison_facts(Gate(before.pk).judge(run))
    assert exported["cases"][0]["after"]["passed"] == 2


def test_cases_with_the_same_id_are_distinguished_by_order():
    of = stored_runs.version([case("same", turn("x", "1")), case("same", turn("y", "2"))])
    keys = [item.key for item in read_cases(of)]
    assert [tuple(key) for key in keys] == [("same", 1), ("same", 2)]


def test_runs_of_two_evalsets_are_not_compared():
    first_run = stored_runs.run(stored_runs.version(cases("a")), {"a": [passing()]})
    other = stored_runs.run(stored_runs.version(cases("a"), "other"), {"a": [passing()]})
    with pytest.raises(BadInput, match="two evalsets"):
        baselines.compare_runs(first_run, other)


def test_evalset_has_one_baseline_which_can_be_unset():
    of = stored_runs.version(cases("a"))
    first, second, third = (stored_runs.run(of, {"a": [passing()]}) for _ in range(3))
    notes.mark_baseline(first.pk)
    notes.mark_baseline(second.pk)
    assert list(EvalRun.objects.filter(baseline=True)) == [second]
    assert baselines.require_reference(third, "baseline").runs == [second]
    assert baselines.find_marked_run(second) is None
    notes.mark_baseline(second.pk, False)
    assert not EvalRun.objects.filter(baseline=True).exists()
    assert baselines.require_reference(third, "previous").runs == [second]
    assert baselines.require_reference(third, first.pk[:12]).runs == [first]


@pytest.mark.parametrize("name", ["baseline", "previous", "nothing", "\x00", "\ud800"])
def test_a_baseline_that_is_not_there_is_refused(name):
    run = stored_runs.run(stored_runs.version(cases("a")), {"a": [passing()]})
    with pytest.raises(NotFound):
        baselines.require_reference(run, name)


def test_active_run_is_no_baseline_and_note_length_is_limited():
    of = stored_runs.version(cases("a"))
    waiting = runs.create_run(runs.NewEvalRun(of, [(0, "a")], {"criteria": {}}))
    with pytest.raises(BadInput, match="has not ended"):
        notes.mark_baseline(waiting.pk)
    with pytest.raises(NotFound):
        notes.mark_baseline("nothing")
    with pytest.raises(BadInput, match="10,001"):
        notes.note_run(waiting.pk, "x" * 10_001)
    with pytest.raises(NotFound):
        notes.note_run("nothing", "x")
    with pytest.raises(NotFound):
        notes.note_attempt(0, "x")


def test_trend_has_rates_changes_and_case_histories():
    of = stored_runs.version(cases("a", "b"))
    stored_runs.run(of, {"a": [passing()], "b": [passing()]})
    last = stored_runs.run(of, {"a": [failing()], "b": [passing()]}, code="v2")
    notes.mark_baseline(last.pk)
    trend = trends.read_evalset_trend(of.evalset)
    assert [point.rate.value for point in trend.points] == [1.0, 0.5]
    assert [[change.what for change in point.changes] for point in trend.points] == [[], ["code"]]
    assert [history.key.id for history in trend.histories] == ["a", "b"]
    assert [stop.level for stop in trend.histories[0].stops if stop] == ["all", "none"]
    drawing = trend.drawing
    assert [lane.name for lane in drawing.lanes if lane.marks] == ["code"]
    assert drawing.dots[0].y < drawing.dots[1].y
    assert drawing.baseline_y == drawing.dots[1].y
    assert all(0 < dot.x < 100 and dot.high <= dot.y <= dot.low for dot in drawing.dots)
    assert drawing.dots[1].x - drawing.dots[0].x < 20, "a few runs stand near each other"


EUROS = {"currency": "EUR", "price": [{"model": "scripted", "input": 3.0, "output": 7.0}]}
DOLLARS = {**EUROS, "currency": "USD"}


def test_costs_in_different_currencies_are_not_compared():
    of = stored_runs.version(cases("a"))
    before = stored_runs.run(
        of, {"a": [passing(cost=2.0, total_tokens=5)]}, prices={**EUROS, "file": "old.toml"}
    )
    moved = stored_runs.run(
        of, {"a": [passing(cost=2.0, total_tokens=5)]}, prices={**EUROS, "file": "new.toml"}
    )
    after = stored_runs.run(
        of, {"a": [passing(cost=3.0, total_tokens=5)]}, prices={**DOLLARS, "file": "new.toml"}
    )
    assert cost_of(before, moved) == (1, 2.0, 2.0)
    assert cost_of(before, after) == (0, None, None)
    assert not read_differences(before, moved)
    (changed,) = read_differences(before, after)
    assert (changed.what, changed.before[:4], changed.after[:4]) == ("prices", "EUR ", "USD ")
    trend = trends.read_evalset_trend(of.evalset)
    assert [point.currency for point in trend.points] == ["EUR", "EUR", "USD"]
    assert [dot.cost_y for dot in trend.drawing.dots] == [None, None, trends.COST_Y - trends.BAR_HEIGHT]


def test_attempts_without_tokens_do_not_count_for_cost_per_repetition():
    of = stored_runs.version(cases("a", "b"))
    right = passing(cost=2.0, total_tokens=5)
    raised = replace(broken(), cost=0.0)
    before, after = (
        stored_runs.run(of, {"a": [right], "b": [right]}),
        stored_runs.run(of, {"a": [right], "b": [raised]}),
    )
    assert cost_of(before, after) == (1, 2.0, 2.0)


def cost_of(before, after):
    (cost,) = [amount for amount in baselines.compare_runs(before, after).amounts if amount.name == "cost"]
    return cost.cases, cost.before, cost.after


def test_a_trend_without_runs_is_empty():
    assert trends.read_evalset_trend(stored_runs.version(cases("a")).evalset).points == []


def queries(read):
    with CaptureQueriesContext(connection) as captured:
        read()
    return len(captured)


def test_reading_a_run_asks_as_often_for_many_cases_as_for_few():
    few, many = [str(number) for number in range(3)], [str(number) for number in range(12)]
    counts = []
    for names in (few, many):
        of = stored_runs.version(cases(*names), f"of {len(names)}")
        first = stored_runs.run(of, {name: [passing()] for name in names})
        notes.mark_baseline(first.pk)
        run = stored_runs.run(of, {name: [failing()] for name in names}, code="v2")
        counts.append(
            [
                queries(lambda run=run: case_matrix.run_context(run)),
                queries(lambda run=run: case_matrix.matrix(run)),
                queries(lambda run=run, first=first: baselines.compare_runs(first, run)),
                queries(lambda run=run: trends.read_evalset_trend(run.evalset)),
                queries(lambda run=run: repetitions.read_case_repetitions(run, 0)),
            ]
        )
    assert counts[0] == counts[1]
    assert max(counts[0]) <= 12
