"""Confirmation: cases that look worse are repeated, and only their repetitions decide."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from evals_app.analysis import baselines
from evals_app.analysis.case_verdicts import Verdict
from evals_app.models import CONFIRMATION, EvalRun
from evals_app.runs import rerun
from evals_app.runs.writes import attempts, runs
from sessions_app.store.errors import BadInput
from tests.evals import stored_runs
from tests.evals.run_evals_command import run_evals, usage_error
from tests.evals.stored_runs import cases, failing, passing
from tests.sessions.concurrency import run_together

MATCH = "--criteria=response_match_score=1"


def run_judged(folder, *arguments):
    return run_evals(folder, "s", "--metrics=response_match_score", MATCH, *arguments)


def break_case(echo):
    """Let the agent answer case a wrongly; return the agent's folder under a name that is not imported yet."""
    agent = echo / "agent.py"
    agent.write_text(agent.read_text().replace("ANSWERS = {}", "ANSWERS = {'a': 'x'}"))
    renamed = echo.rename(echo.with_name(f"{echo.name}_2"))
    EvalRun.objects.update(app_name=renamed.name)
    EvalRun.objects.first().evalset.__class__.objects.update(app_name=renamed.name)
    return renamed


def test_command_repeats_a_suspicious_case_and_fails_on_what_is_confirmed(store, echo):
    for _ in range(5):
        run_judged(echo)
    run_judged(echo)
    broken = break_case(echo)
    code, out = run_judged(broken, "--baseline=previous", "--fail-on=regression", "--confirm=5")
    assert code == 1
    assert "a: worse than the baseline, repeated 5 times to confirm" in out
    assert (
        "fails a: 0 of 5 fresh repetitions passed, 5 of 5 attempts of 5 runs before the baseline: p =" in out
    )
    confirmation = EvalRun.objects.get(source=CONFIRMATION)
    assert (json.loads(confirmation.case_ids), confirmation.num_runs, confirmation.failed) == (["a"], 5, 5)


def test_command_does_not_repeat_what_has_not_fallen(store, echo):
    for _ in range(4):
        run_judged(echo)
    code, out = run_judged(echo, "--baseline=previous", "--fail-on=regression", "--confirm=5")
    assert (code, "repeated" in out) == (0, False)
    assert not EvalRun.objects.filter(source=CONFIRMATION).exists()


def test_command_says_why_a_case_was_not_repeated(store, echo):
    run_judged(echo)
    code, out = run_judged(break_case(echo), "--baseline=previous", "--fail-on=regression", "--confirm=5")
    assert code == 0
    assert "Unclear cases that were not repeated: 1. A case is repeated if it fell since the baseline" in out
    assert not EvalRun.objects.filter(source=CONFIRMATION).exists()


def test_confirmation_without_baseline_or_with_wrong_number_is_refused(store, echo):
    assert "--confirm needs a baseline" in usage_error(echo, "s", "--confirm=5")
    assert "must be 1 to 100, not 0" in usage_error(echo, "s", "--confirm=0", "--baseline=previous")
    assert not EvalRun.objects.exists()


@pytest.fixture
def suspicious(db):
    """A baseline with a history, and a run in which one of two cases failed once."""
    version = stored_runs.version(cases("a", "b"))
    stored_runs.run(version, {"a": [passing()] * 5, "b": [passing()] * 5}, code="v0")
    then = stored_runs.run(version, {"a": [passing()], "b": [passing()]}, code="v1")
    return then, stored_runs.run(version, {"a": [failing()], "b": [passing()]}, code="v2")


def test_only_the_first_confirmation_counts(suspicious):
    then, now = suspicious
    first = rerun.confirm(now, baselines.cases_to_confirm(baselines.refer_to_run(then, now), now), 2)
    finish(first, failing())
    second = rerun.confirm(now, [0], 50)
    finish(second, passing())
    [change] = [change for change in baselines.compare_runs(then, now).cases if change.key.id == "a"]
    assert (change.fresh.passed, change.fresh.failed) == (0, 2)


def test_confirmation_of_changed_code_does_not_count(suspicious):
    then, now = suspicious
    finish(rerun.confirm(now, [0], 5), failing(), code="v3")
    assert all(change.fresh is None for change in baselines.compare_runs(then, now).cases)


def finish(run, outcome, code="v2"):
    runs.claim_run(run.id, None)
    runs.note_facts(run.id, stored_runs.RunFacts(code, adk_version="2", models={"counter": "scripted"}))
    for attempt in run.attempts.all():
        attempts.start_attempt(attempt.pk)
        attempts.finish_attempt(attempt.pk, outcome)
    runs.finish_run(run.id, EvalRun.Status.DONE)


def test_second_confirmation_waits_for_the_first(suspicious):
    then, now = suspicious
    first = rerun.confirm(now, baselines.cases_to_confirm(baselines.refer_to_run(then, now), now), 5)
    page = Client().get(f"/evals/runs/{now.pk}/compare/?with={then.pk}").content.decode()
    assert "Repeat 1 case" not in page
    with pytest.raises(rerun.EvalRunActive, match=f"Run {first.id} already repeats a part of run {now.id}"):
        rerun.confirm(now, [0], 5)


def test_simultaneous_confirmations_create_one_run(store):
    version = stored_runs.version(cases("a"))
    now = stored_runs.run(version, {"a": [failing()]})
    together = run_together([lambda: rerun.confirm(now, [0], 5)] * 4)
    assert [type(result) for result in together].count(rerun.EvalRunActive) == 3
    assert EvalRun.objects.filter(source=CONFIRMATION).count() == 1


def test_comparison_of_an_active_run_says_so_and_cannot_be_confirmed(suspicious):
    then, now = suspicious
    EvalRun.objects.filter(pk=now.pk).update(status=EvalRun.Status.RUNNING)
    page = Client().get(f"/evals/runs/{now.pk}/compare/?with={then.pk}").content.decode()
    assert "This run has not ended." in page
    assert "Repeat 1 case" not in page


def test_run_without_suspicious_case_is_not_confirmed(suspicious):
    then, _ = suspicious
    with pytest.raises(BadInput, match="has no case that repetitions can decide"):
        rerun.confirm(then, [], 5)


def test_comparison_page_offers_to_repeat_and_says_what_to_do(suspicious):
    then, now = suspicious
    page = Client().get(f"/evals/runs/{now.pk}/compare/?with={then.pk}").content.decode()
    assert "Some cases look worse, but chance can explain it." in page
    assert "Repeat 1 case" in page
    finish(rerun.confirm(now, [0], 5), failing())
    page = Client().get(f"/evals/runs/{now.pk}/compare/?with={then.pk}").content.decode()
    assert "This run is worse than the earlier ones." in page
    assert "0 of 5 attempts passed." in page
    assert baselines.compare_runs(then, now).cases_with(Verdict.REGRESSED)


@pytest.mark.parametrize(
    ("repeated", "fallen", "advice"),
    [
        (1, 1, "Some cases look worse, but there are too few outcomes to decide."),
        (6, 6, "This run is worse than the earlier ones."),
        (6, 0, "No case is worse than chance explains."),
    ],
)
def test_comparison_page_advises_on_the_next_step(db, settings, folder, repeated, fallen, advice):
    settings.DEVUI_AGENTS_DIR = str(folder.path)
    version = stored_runs.version(cases("a"))
    stored_runs.run(version, {"a": [passing()] * repeated}, code="v1")
    now = stored_runs.run(version, {"a": [failing()] * fallen + [passing()] * (repeated - fallen)}, code="v2")
    assert advice in Client().get(f"/evals/runs/{now.pk}/compare/?with=previous").content.decode()


def test_advice_leads_with_what_became_better(db):
    version = stored_runs.version(cases("a", "b"))
    then = stored_runs.run(version, {"a": [failing()] * 6, "b": [passing()] * 6}, code="v1")
    now = stored_runs.run(version, {"a": [passing()] * 6, "b": [passing()] * 6}, code="v2")
    assert baselines.compare_runs(then, now).advice.title == "Better: 1 case fixed, none worse."


def test_advice_opens_fallen_cases_if_only_the_whole_is_worse(db):
    names = [f"case {number}" for number in range(20)]
    version = stored_runs.version(cases(*names))
    then = stored_runs.run(version, {name: [passing()] for name in names}, code="v1")
    now = stored_runs.run(version, {name: [failing()] for name in names}, code="v2")
    result = baselines.compare_runs(then, now)
    assert not result.cases_with(Verdict.REGRESSED)
    assert result.advice.text.startswith(
        "What differs: code. No single case is proven worse, but all of them"
    )
    assert "all of them fell (p < 0.0001, exact permutation test" in result.regressions[0]


def test_comparison_without_a_comparable_case_decides_nothing(db):
    version = stored_runs.version(cases("a", "b"))
    then = stored_runs.run(version, {"a": [passing()], "b": [passing()]}, code="v1")
    now = stored_runs.run(version, {"a": [passing()], "b": [passing()]}, code="v2")
    now.attempts.update(status="incomplete")
    result = baselines.compare_runs(then, now)
    assert result.whole.refusal == "No case can be compared. No repetition was judged after."
    assert result.advice.mark == "warn"
    assert result.advice.text.startswith("Compare with another run")
    page = Client().get(f"/evals/runs/{now.pk}/compare/?with={then.pk}").content.decode()
    assert "You need not do anything" not in page
    assert "not comparable" in page
    assert "no significant change overall" not in page
