"""First outcomes count: later tries of attempts with an outcome are shown, and enter no rate, history or gate."""

from __future__ import annotations

import json

import pytest

from evals_app.analysis import attempt_detail, baselines, case_matrix, repetitions, retries, trends
from evals_app.analysis.ci_gate import Gate
from evals_app.analysis.exports import html_page, markdown, run_csv, run_json
from evals_app.files.library import find_evalset
from evals_app.models import EvalAttempt, EvalRun, EvalSet
from evals_app.runs import progress, rerun
from evals_app.runs.attempt_status import MODEL_UNAVAILABLE
from evals_app.runs.replay.recorded_runs import resolve_policy
from evals_app.runs.rerun import EvalRunActive
from evals_app.runs.writes import attempts, notes, runs
from evals_app.runs.writes.outcomes import Outcome
from sessions_app.delivery.failure import Failure
from sessions_app.store.errors import BadInput, NotFound
from tests.evals import stored_runs
from tests.evals.run_evals_command import run_evals, usage_error
from tests.evals.stored_runs import broken, cases, failing, passing
from tests.sessions.concurrency import run_together

Status = EvalAttempt.Status
UNAVAILABLE = Outcome(Status.ERROR, failure=Failure(MODEL_UNAVAILABLE, "429: Slow down."))


@pytest.fixture
def first(store) -> EvalRun:
    """A run with two repetitions of three cases: 3 of 6 attempts passed, one has no outcome."""
    return stored_runs.run(
        stored_runs.version(cases("a", "b", "c")),
        {"a": [passing(), passing()], "b": [failing(), passing()], "c": [broken(), UNAVAILABLE]},
    )


def carry_out(run, outcomes):
    """Carry out a pending run: (case, repetition) → outcome."""
    runs.claim_run(run.id, None)
    for attempt in run.attempts.filter(status=Status.PENDING):
        attempts.start_attempt(attempt.pk)
        attempts.finish_attempt(attempt.pk, outcomes[attempt.case_id, attempt.repetition])
    runs.finish_run(run.id, EvalRun.Status.DONE)
    return rerun.reload_run(run.id)


def retry(run, outcomes, chosen=()):
    """Retry a run; carry out the runs that do so and return them."""
    return [carry_out(again, outcomes) for again in rerun.retry(run, chosen)]


def read_names(run):
    return [(row.case_id, row.repetition) for row in run.attempts.order_by("case_index", "repetition")]


def read_statuses(run):
    rows = run.attempts.order_by("case_index", "repetition")
    return {(row.case_id, row.repetition): (row.status, row.tries) for row in rows}


def test_only_attempts_without_an_outcome_restart_in_the_run_itself(first):
    restarted, again = rerun.retry(first)
    assert restarted.pk == first.pk
    assert (again.source, again.repeats, again.total, again.num_runs) == ("retry", first, 2, 2)
    assert read_names(again) == [("b", 1), ("c", 1)]
    statuses = read_statuses(first)
    assert statuses["c", 2] == (Status.PENDING, 1)
    assert statuses["b", 1] == (Status.FAILED, 1)
    assert statuses["c", 1] == (Status.ERROR, 1)


def test_new_outcome_of_an_attempt_that_had_none_counts_as_its_first(first):
    retry(first, {("c", 2): passing(), ("b", 1): failing(), ("c", 1): passing()})
    first.refresh_from_db()
    assert (first.passed, first.failed, first.errors) == (4, 1, 1)
    assert retries.find_retries(first).text == "5 of 6 after retries, 4 at first"


def test_later_tries_enter_no_rate_history_trend_or_gate(first):
    before = stored_runs.run(first.version, {name: [passing()] for name in "abc"})
    [_, again] = retry(first, {("c", 2): UNAVAILABLE, ("b", 1): passing(), ("c", 1): passing()})
    later = stored_runs.run(first.version, {name: [passing()] for name in "abc"})
    first = rerun.reload_run(first.pk)
    assert case_matrix.tally(first).rate.passed == 1.5
    assert case_matrix.tally(again).rate.total == 0
    assert case_matrix.matrix(again).flaky == 0
    assert repetitions.read_case_repetitions(again, 1).rate.total == 0
    assert [point.run.pk for point in trends.read_evalset_trend(first.evalset).points] == [
        first.pk,
        before.pk,
        later.pk,
    ]
    assert again not in baselines.list_comparable_runs(later)
    assert baselines.find_marked_run(again) is None
    changes = {change.key.id: change for change in baselines.compare_runs(before, later).cases}
    assert changes["b"].earlier.by_run == [(1, 1), (1, 2)]
    assert changes["c"].earlier.by_run == [(1, 1), (0, 1)]
    assert Gate().judge(first).fails == ["3 of 6 attempts did not pass."]
    assert progress.newest_runs(EvalSet.objects.all())[first.evalset_id] == later


def test_newest_run_is_never_a_retry(first):
    retry(first, {("c", 2): UNAVAILABLE, ("b", 1): passing(), ("c", 1): passing()})
    assert progress.newest_runs(EvalSet.objects.all())[first.evalset_id] == first
    policy = {"models": "recorded", "tools": "live", "source": {"run": "last"}}
    assert resolve_policy(first.evalset, policy)["source"]["run"] == first.pk


def test_second_retry_tries_what_passed_in_no_try(first):
    retry(first, {("c", 2): passing(), ("b", 1): passing(), ("c", 1): failing()})
    first = rerun.reload_run(first.pk)
    assert progress.read_progress(first).not_passed == 1
    [second] = retry(first, {("c", 1): passing()})
    assert (second.repeats, read_names(second)) == (first, [("c", 1)])
    assert retries.find_retries(first).passed == 6
    assert not progress.read_progress(first).can_retry
    with pytest.raises(BadInput, match="No attempt of the run failed or erred in all its tries"):
        rerun.retry(first)


def test_retry_of_a_retry_repeats_the_first_run(first):
    [_, again] = retry(first, {("c", 2): passing(), ("b", 1): UNAVAILABLE, ("c", 1): failing()})
    restarted, second = rerun.retry(again)
    assert restarted.pk == again.pk
    assert read_statuses(again)["b", 1] == (Status.PENDING, 1)
    assert (second.repeats, read_names(second)) == (first, [("c", 1)])


def test_attempt_that_passed_is_tried_again_on_request(first):
    chosen = first.attempts.get(case_id="a", repetition=2)
    [again] = retry(first, {("a", 2): failing()}, [chosen.pk])
    assert read_names(again) == [("a", 2)]
    chosen.refresh_from_db()
    assert (chosen.status, chosen.tries) == (Status.PASSED, 1)


def test_second_retry_waits_for_the_first(first):
    _, again = rerun.retry(first)
    carry_out(first, {("c", 2): passing()})
    first = rerun.reload_run(first.pk)
    assert not progress.read_progress(first).can_retry
    with pytest.raises(EvalRunActive, match=f"Run {again.id} already repeats a part of run {first.id}"):
        rerun.retry(first)


def test_simultaneous_retries_create_one_run(first):
    together = run_together([lambda: rerun.retry(first)] * 4)
    assert sum(isinstance(result, list) for result in together) == 1
    assert EvalRun.objects.filter(source="retry").count() == 1


def test_refused_retry_changes_nothing(first):
    _, again = rerun.retry(first)
    carry_out(first, {("c", 2): UNAVAILABLE})
    with pytest.raises(EvalRunActive):
        rerun.retry(first)
    assert read_statuses(first)["c", 2] == (Status.ERROR, 2)
    with pytest.raises(NotFound, match="has no attempt"):
        rerun.retry(first, [again.attempts.first().pk])


def test_retry_is_no_baseline(first):
    [_, again] = retry(first, {("c", 2): UNAVAILABLE, ("b", 1): passing(), ("c", 1): passing()})
    with pytest.raises(BadInput, match="first outcomes count") as refusal:
        notes.mark_baseline(again.pk)
    assert first.pk in refusal.value.hint


def test_attempt_lists_its_tries_beside_the_one_that_counts(first):
    retry(first, {("c", 2): UNAVAILABLE, ("b", 1): failing(), ("c", 1): passing()})
    retry(first, {("c", 2): UNAVAILABLE, ("b", 1): passing()})
    counted = EvalAttempt.objects.get(run=first, case_id="b", repetition=1)
    later = EvalAttempt.objects.filter(run__source="retry", case_id="b").order_by("pk")
    for attempt in (counted, *later):
        tries = attempt_detail.detail(attempt).tries
        assert (tries.first, list(tries.later)) == (counted, list(later))
    assert attempt_detail.detail(first.attempts.get(case_id="a", repetition=1)).tries is None


def test_exports_show_later_tries_beside_first_outcomes(first):
    [_, again] = retry(first, {("c", 2): UNAVAILABLE, ("b", 1): passing(), ("c", 1): failing()})
    first = rerun.reload_run(first.pk)
    text = "4 of 6 after retries, 3 at first"
    assert text in markdown.as_markdown([Gate().judge(first)])
    assert text in html_page.as_html([first])
    [data] = json.loads(run_json.as_json([first]))["runs"]
    assert data["retries"] == {"passed": 4, "runs": [again.pk]}
    assert (data["counts"]["passed"], data["rate"]["passed"]) == (3, 0.5)
    later = {(row["case"], row["repetition"]): row["later"] for row in data["attempts"]}
    assert [(row["run"], row["status"]) for row in later["b", 1]] == [(again.pk, "passed")]
    assert later["a", 1] == []
    assert len(run_csv.as_csv([first]).splitlines()) == 1 + 6


def test_list_offers_to_retry_what_passed_in_no_try(first):
    def offered():
        rows = progress.annotate_actions(EvalRun.objects.all()).order_by("created_at")
        return [row.may_retry for row in rows]

    retry(first, {("c", 2): passing(), ("b", 1): passing(), ("c", 1): failing()})
    assert offered() == [True, True]
    retry(first, {("c", 1): passing()})
    assert offered() == [False, False, False]


@pytest.fixture
def unsteady(echo):
    """An agent that passes its last case only when an environment variable is set."""
    agent = echo / "agent.py"
    fixed = "__import__('os').environ.get('ECHO_FIXED') and {'c': 'd'} or {}"
    agent.write_text(agent.read_text().replace("ANSWERS.get(", f"({fixed}).get("))
    return echo


MATCH = ("--metrics=response_match_score", "--criteria=response_match_score=1")


def test_command_retries_and_judges_first_outcomes(store, unsteady, monkeypatch, tmp_path):
    assert run_evals(unsteady, "s", "--num-runs=2", *MATCH)[0] == 1
    first = EvalRun.objects.get()
    monkeypatch.setenv("ECHO_FIXED", "1")
    files = [f"--json={tmp_path}/r.json", f"--junit={tmp_path}/r.xml", f"--markdown={tmp_path}/r.md"]
    code, out = run_evals(unsteady, "--retry=last", *files)
    assert code == 1
    assert f"2 attempts of run {first.id} again" in out
    assert "2 of 2 passed" in out
    assert f"6 of 6 after retries, 4 at first (run {first.id}). First outcomes count." in out
    assert "4 of 6 attempts passed (6 of 6 after retries, 4 at first)" in (tmp_path / "r.md").read_text()
    [data] = json.loads((tmp_path / "r.json").read_text())["runs"]
    assert data["id"] == first.id
    assert (tmp_path / "r.xml").read_text().count("<failure") == 2
    assert "in all its tries" in usage_error(unsteady, "--retry=last")


def test_command_gate_after_a_retry_is_that_of_the_first_run(store, unsteady, monkeypatch):
    for _ in range(2):
        run_evals(unsteady, "s", "--num-runs=3", *MATCH)
    monkeypatch.setenv("ECHO_FIXED", "1")
    run_evals(unsteady, "--retry=last")
    monkeypatch.delenv("ECHO_FIXED")
    code, out = run_evals(
        unsteady, "s", "--num-runs=3", *MATCH, "--baseline=previous", "--fail-on=regression"
    )
    assert (code, "worse" in out) == (0, False)


def test_last_run_to_retry_is_never_a_retry(store, unsteady):
    run_evals(unsteady, "s", *MATCH)
    first = EvalRun.objects.get()
    for count in (1, 2):
        run_evals(unsteady, "--retry=last")
        retried = EvalRun.objects.filter(source="retry", repeats=first)
        assert retried.count() == count
    assert find_evalset(unsteady.name, "s").runs.count() == 3
