"""Settings of the gate: limits of cost, tokens and latency, and falls of scores."""

from __future__ import annotations

import json

import pytest
from django.core.management import CommandError, call_command
from google.adk.evaluation.eval_config import get_evaluation_criteria_or_default

from evals_app.analysis import baselines
from evals_app.analysis.ci_gate import Gate
from evals_app.analysis.exports.markdown import as_markdown
from evals_app.analysis.gate_settings import GateSettings, describe_exceeded_limits, read_options
from evals_app.analysis.run_differences import read_differences
from evals_app.analysis.statistics import percentile
from evals_app.metrics import config as configs
from evals_app.models import EvalAttempt, EvalRun
from sessions_app.file_problems import BadFile
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput
from tests.evals import stored_runs
from tests.evals.builders import case, evalset, turn, write
from tests.evals.run_evals_command import run_evals, usage_error
from tests.evals.stored_runs import CRITERIA, PARIS, cases, failing, passing
from tests.evals.web_pages import start_run
from tests.pages.html import parse

JUDGED = ("--metrics=response_match_score", "--criteria=response_match_score=0")
NAMES = tuple(f"case {number}" for number in range(12))


@pytest.fixture
def finished_run(db):
    """A run of two cases, two attempts each."""
    return stored_runs.run(
        stored_runs.version(cases("a", "b")), {"a": [passing()] * 2, "b": [passing(), failing()]}
    )


def change_attempts(run, case_id, **columns):
    run.attempts.filter(case_id=case_id).update(**columns)


def excesses(run, **settings):
    return describe_exceeded_limits(run, GateSettings(**settings))


def answering(score):
    return stored_runs.outcome(EvalAttempt.Status.PASSED, [1.0, score], PARIS)


def scored_runs(before, after, config=None):
    """Return two runs of the same cases with a score of the answer each."""
    of = stored_runs.version(cases(*NAMES))
    return [
        stored_runs.run(of, {name: [answering(score)] for name in NAMES}, code=code, config=config)
        for code, score in (("v1", before), ("v2", after))
    ]


def test_run_within_its_limits_exceeds_nothing(finished_run):
    change_attempts(finished_run, "a", total_tokens=10, cost=0.1)
    assert excesses(finished_run) == []
    assert excesses(finished_run, max_cost=0.2, max_tokens=20, max_case_cost=0.1, max_latency_p95=60) == []


def test_run_over_its_limits_says_how_much_and_which_option(finished_run):
    change_attempts(finished_run, "a", total_tokens=600, cost=0.155)
    assert excesses(finished_run, max_cost=0.25, max_tokens=1000) == [
        "The cost of the run is 0.31 USD, more than 0.25 USD (--max-cost).",
        "The number of tokens of the run is 1,200 tokens, more than 1,000 tokens (--max-tokens).",
    ]


def test_limits_of_a_case_hold_for_the_mean_of_its_attempts(finished_run):
    first, second = finished_run.attempts.filter(case_id="a")
    EvalAttempt.objects.filter(pk=first.pk).update(total_tokens=100, cost=0.3)
    EvalAttempt.objects.filter(pk=second.pk).update(total_tokens=100, cost=0.1)
    assert excesses(finished_run, max_case_cost=0.2, max_case_tokens=100) == []
    assert excesses(finished_run, max_case_cost=0.15) == [
        "The mean cost of 1 case is more than 0.15 USD (--max-case-cost): a 0.2 USD."
    ]


def test_cost_limit_with_unpriced_model_is_exceeded(finished_run):
    change_attempts(finished_run, "a", total_tokens=10, cost=None)
    assert excesses(finished_run, max_cost=5, max_case_cost=5) == [
        "The cost of the run is unknown: 2 attempts used a model without a price (--max-cost).",
        "The cost of a is unknown (--max-case-cost).",
    ]


def test_latency_excludes_waits_and_attempts_without_outcome(finished_run):
    change_attempts(finished_run, "a", started_at=0.0, finished_at=30.0, waited_seconds=28.0)
    change_attempts(finished_run, "b", started_at=0.0, finished_at=4.0)
    assert excesses(finished_run, max_latency_p95=4, max_latency_p50=2, max_case_latency=4) == []
    assert excesses(finished_run, max_latency_p95=3.5, max_latency_p50=1, max_case_latency=3) == [
        "The median latency of an attempt is 2 s, more than 1 s (--max-latency-p50).",
        "The 95th percentile of the latency of an attempt is 4 s, more than 3.5 s (--max-latency-p95).",
        "The mean latency of 1 case is more than 3 s (--max-case-latency): b 4 s.",
    ]
    change_attempts(finished_run, "b", status="error", error_type="ModelUnavailable")
    assert excesses(finished_run, max_latency_p95=3.5) == []


def test_percentile_is_one_of_the_values_by_nearest_rank():
    values = [float(number) for number in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.95)) == (50.0, 95.0)
    assert (percentile([3.0, 1.0, 2.0], 0.5), percentile([3.0, 1.0, 2.0], 0.95)) == (2.0, 3.0)


def test_command_line_overrides_the_configuration():
    config = {"devui_gate": {"max_cost": 1, "max_tokens": 5, "score_tolerance": {"safety_v1": 0.1}}}
    options = read_options({"max_cost": "0.5", "score_tolerance": ["response_match_score=0.02"]})
    settings = GateSettings.read(config, options)
    assert (settings.max_cost, settings.max_tokens, settings.min_compared) == (0.5, 5, 0.8)
    assert settings.score_tolerance == {"safety_v1": 0.1, "response_match_score": 0.02}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("max_cost", "cheap", "--max-cost must be a number, not 'cheap'."),
        ("max_cost", "", "--max-cost must be a number, not ''."),
        ("max_tokens", "-1", "--max-tokens must be greater than or equal to 0, not -1.0."),
        ("max_latency_p95", "nan", "--max-latency-p95 must be a finite number, not nan."),
        ("max_case_cost", "inf", "--max-case-cost must be a finite number, not inf."),
        ("min_compared", "1.5", "--min-compared must be less than or equal to 1, not 1.5."),
        ("score_tolerance", ["0.2"], "--score-tolerance '0.2' is not NAME=NUMBER."),
        ("score_tolerance", ["a=x"], "--score-tolerance a must be a number, not 'x'."),
        ("score_tolerance", ["a=-1"], "--score-tolerance a must be greater than or equal to 0, not -1.0."),
    ],
)
def test_invalid_setting_is_refused_in_a_sentence(name, value, message):
    with pytest.raises(BadInput) as refused:
        read_options({name: value})
    assert refused.value.message == message
    assert refused.value.hint


def test_tolerance_of_unknown_metric_is_refused_before_anything_runs(store, echo):
    message = usage_error(echo, "s", *JUDGED, "--score-tolerance=response_match=0.1")
    assert message == (
        "--score-tolerance: There is no metric 'response_match'.\nDid you mean response_match_score?"
    )
    assert "--max-cost must be a number, not 'x'." in usage_error(echo, "s", "--max-cost=x")
    assert not EvalRun.objects.exists()


def test_invalid_gate_of_configuration_is_a_problem_with_line_and_field(tmp_path):
    file = write(tmp_path, "a.evalset.json", {})
    write(
        tmp_path, "test_config.json", '{"criteria": {},\n "devui_gate": {"max_costs": 1,\n  "max_cost": "x"}}'
    )
    with pytest.raises(BadFile) as refused:
        configs.config_beside(file)
    messages = [str(problem).removeprefix(f"{tmp_path}/") for problem in refused.value.problems]
    assert messages == [
        "test_config.json:3:3: devui_gate.max_cost: must be a number, not 'x'",
        "test_config.json:2:17: devui_gate.max_costs: is no known field: correct the name or omit it",
    ]


def test_gate_of_configuration_is_no_unknown_field_and_adk_reads_the_file(tmp_path):
    gate = {"max_cost": 1, "score_tolerance": {"response_match_score": 0.1}}
    document = {"criteria": {"response_match_score": 0.5}, "devui_gate": gate}
    file = write(tmp_path, "test_config.json", document)
    config = configs.config_beside(tmp_path / "a.evalset.json")
    assert (config.warnings, config.data["devui_gate"]) == ([], {**gate, "max_cost": 1.0})
    assert get_evaluation_criteria_or_default(str(file)).criteria == {"response_match_score": 0.5}
    assert (
        configs.choose_metrics(config, ["tool_trajectory_avg_score"]).data["devui_gate"]
        == config.data["devui_gate"]
    )
    gate["score_tolerance"]["response"] = 1
    write(tmp_path, "test_config.json", document)
    with pytest.raises(BadInput, match=r"devui_gate.score_tolerance: There is no metric 'response'"):
        configs.check_config(configs.config_beside(tmp_path / "a.evalset.json"))


def test_gate_of_configuration_fails_the_build_and_says_why(store, echo):
    write(
        echo,
        "test_config.json",
        {"criteria": {"response_match_score": 0.0}, "devui_gate": {"max_latency_p95": 0}},
    )
    code, out = run_evals(echo, "s")
    assert code == 1
    assert "fails The 95th percentile of the latency of an attempt is" in out
    assert run_evals(echo, "s", "--max-latency-p95=600")[0] == 0


def test_changed_gate_leaves_runs_comparable(db):
    of = stored_runs.version(cases("a"))
    then, now = (
        stored_runs.run(of, {"a": [passing()]}, config={"criteria": CRITERIA, **more})
        for more in ({}, {"devui_gate": {"max_cost": 1}})
    )
    assert baselines.compare_runs(then, now).cases[0].is_comparable
    assert "judged by" not in {difference.what for difference in read_differences(then, now)}


def test_proven_fall_of_scores_fails_the_gate(db):
    then, now = scored_runs(0.95, 0.85)
    sentence = (
        "response_match_score fell from 0.95 to 0.85 over 12 cases (p = 0.00098), more than the tolerance of"
    )
    assert Gate(then.pk, "regression").judge(now).fails == []
    cause = "What differs: code."
    assert Gate(then.pk, "scores").judge(now).fails == [f"{sentence} 0.", cause]
    for tolerance, fails in ((0.02, [f"{sentence} 0.02.", cause]), (0.1, [])):
        gate = Gate(then.pk, "scores", settings={"score_tolerance": {"response_match_score": tolerance}})
        assert gate.judge(now).fails == fails


def test_scores_of_a_configuration_have_its_tolerance(db):
    gate = {"score_tolerance": {"response_match_score": 0.2}}
    then, now = scored_runs(0.95, 0.85, {"criteria": CRITERIA, "devui_gate": gate})
    assert Gate(then.pk, "scores").judge(now).fails == []


def test_proven_fall_of_scores_is_no_reason_to_do_nothing(db):
    advice = baselines.compare_runs(*scored_runs(0.95, 0.85)).advice
    assert (advice.mark, advice.title) == (
        "warn",
        "Scores fell: response_match_score.",
    )
    assert baselines.compare_runs(*scored_runs(0.95, 0.95)).advice.text == "You need not do anything."


def test_gate_on_scores_needs_a_baseline(store, echo):
    assert "no run is marked as baseline" in usage_error(echo, "s", "--fail-on=scores")


def test_summary_has_a_line_per_metric_with_and_without_a_baseline(db):
    then, now = scored_runs(0.95, 0.85)
    summary = as_markdown([Gate(then.pk, "scores").judge(now)])
    assert "- `response_match_score`: 0.95 → 0.85, worse (mean of 12 cases, p = 0.00098)" in summary
    assert "- `tool_trajectory_avg_score`: 1 → 1, no significant change (mean of 12 cases, p = 1)" in summary
    assert "- `response_match_score`: mean 0.95" in as_markdown([Gate().judge(then)])
    assert "latency of an attempt p50 " in summary


def test_terminal_has_scores_amounts_and_latency(store, echo):
    code, out = run_evals(echo, "s", *JUDGED)
    assert code == 0
    assert "  response_match_score: mean " in out
    assert "latency of an attempt p50 " in out


async def test_run_form_shows_the_gate_and_keeps_it(web, folder, process):
    write(folder.path, "set.evalset.json", evalset(case("one", turn("hi", "hi"))))
    write(
        folder.path,
        "test_config.json",
        {"criteria": {"response_match_score": 0.5}, "devui_gate": {"max_cost": 0.25}},
    )
    page = parse((await web.get("/evals/counter/set/")).content)
    assert "--max-cost 0.25" in page.text
    await start_run(web, "set", metric=["response_match_score"])
    run = await units_of_work.read(EvalRun.objects.get)
    assert json.loads(run.config)["devui_gate"] == {"max_cost": 0.25}


def test_merge_refuses_an_invalid_setting_before_it_merges(store, tmp_path):
    with pytest.raises(CommandError, match="--max-latency-p95 must be a number, not 'fast'") as refused:
        call_command("merge_evals", str(tmp_path / "missing.sqlite3"), "--max-latency-p95=fast")
    assert refused.value.returncode == 2
