"""Scores equal ADK's for every metric; a metric that cannot run reports the reason."""

from __future__ import annotations

import json

import pytest
from django.template.loader import render_to_string
from google.adk.evaluation.eval_case import EvalCase, Invocation
from google.adk.evaluation.eval_config import EvalConfig, get_eval_metrics_from_config
from google.adk.evaluation.final_response_match_v1 import RougeEvaluator
from google.adk.evaluation.trajectory_evaluator import TrajectoryEvaluator
from google.adk.events.event import Event
from google.genai import types

from evals_app.analysis import attempt_detail
from evals_app.metrics import catalog
from evals_app.models import EvalAttempt, MetricResult
from sessions_app.store.database import units_of_work
from tests.evals import agents
from tests.evals.builders import case, evalset, turn

Status = MetricResult.Status


async def attempt_of(run, case_id=None):
    def read():
        attempt = run.attempts.filter(**({"case_id": case_id} if case_id else {})).get()
        return attempt, {
            (result.metric, result.invocation): result for result in attempt.results.order_by("position")
        }

    return await units_of_work.read(read)


def looks_up(ctx, text):
    city = text.split()[-1]
    return [
        agents.calls("get_weather", city=city),
        agents.calls("log", about=city),
        f"It is sunny in {city}.",
    ]


TRAJECTORY = [{"name": "get_weather", "args": {"city": "Rome"}}]


@pytest.mark.parametrize(
    ("criterion", "scores"),
    [
        (1.0, [0.0, 0.0]),
        ({"threshold": 1.0, "match_type": "IN_ORDER"}, [1.0, 0.0]),
        ({"threshold": 1.0, "match_type": "ANY_ORDER"}, [1.0, 0.0]),
        ({"threshold": 0.5, "match_type": "IN_ORDER", "ignore_args": True}, [1.0, 1.0]),
    ],
)
async def test_scores_equal_those_of_adks_evaluators_on_the_same_data(play, criterion, scores):
    document = evalset(
        case(
            "a",
            turn("weather in Rome", "It is sunny in Rome.", TRAJECTORY),
            turn("weather in Oslo", "Oslo has no sun.", TRAJECTORY),
        )
    )
    config = {"criteria": {"tool_trajectory_avg_score": criterion, "response_match_score": 0.7}}
    run = await play(document, looks_up, config)
    attempt, results = await attempt_of(run)

    expected = EvalCase.model_validate(document["eval_cases"][0]).conversation
    actual = [Invocation.model_validate(invocation) for invocation in json.loads(attempt.actual)]
    trajectory, rouge, *_ = get_eval_metrics_from_config(EvalConfig.model_validate(config))
    for evaluator in (TrajectoryEvaluator(eval_metric=trajectory), RougeEvaluator(eval_metric=rouge)):
        name = (trajectory if isinstance(evaluator, TrajectoryEvaluator) else rouge).metric_name
        adk = evaluator.evaluate_invocations(actual, expected)
        assert results[name, None].score == adk.overall_score
        assert results[name, None].status == adk.overall_eval_status.name.lower()
        for index, result in enumerate(adk.per_invocation_results):
            assert results[name, index].score == result.score
            assert results[name, index].status == result.eval_status.name.lower()
    assert [results["tool_trajectory_avg_score", index].score for index in (0, 1)] == scores


async def test_always_reported_metrics_never_decide(play):
    run = await play(evalset(case("a", turn("in Rome", "It is sunny in Rome."))), looks_up)
    attempt, results = await attempt_of(run)
    assert attempt.status == EvalAttempt.Status.PASSED
    assert {name for name, turn_index in results if turn_index is None} == {
        "response_match_score",
        *catalog.INFORMATIONAL_METRICS,
    }
    assert results["tool_call_count_v1", None].score == 2
    assert results["invocation_duration_v1", 0].score is not None
    assert {results[name, None].status for name in catalog.INFORMATIONAL_METRICS} == {Status.INFORMATIONAL}


async def test_a_case_with_a_metric_that_cannot_run_is_incomplete_never_passed(play):
    config = {"response_match_score": 0.5, "safety_v1": 0.5}
    run = await play(evalset(case("a", turn("in Rome", "It is sunny in Rome."))), looks_up, config)
    attempt, results = await attempt_of(run)
    assert results["response_match_score", None].status == Status.PASSED
    assert results["safety_v1", None].status == Status.NOT_EVALUATED
    assert "needs the vertex extra" in results["safety_v1", None].reason
    assert attempt.status == EvalAttempt.Status.INCOMPLETE
    assert (run.passed, run.incomplete) == (0, 1)


async def test_failed_metric_outweighs_unavailable_one(play):
    config = {"response_match_score": 1.0, "safety_v1": 0.5}
    run = await play(evalset(case("a", turn("in Rome", "Nothing of the kind"))), looks_up, config)
    assert run.failed == 1


async def test_a_run_judged_by_nothing_passes_nothing(play):
    run = await play(evalset(case("a", turn("in Rome", "It is sunny in Rome."))), looks_up, {"criteria": {}})
    assert run.incomplete == 1
    assert "no metric with a verdict" in run.warnings


RUBRIC = {"rubric_id": "greets", "rubric_content": {"text_property": "The answer greets."}}
JUDGED = [
    "final_response_match_v2",
    "hallucinations_v1",
    "rubric_based_final_response_quality_v1",
    "rubric_based_tool_use_quality_v1",
    "rubric_based_multi_turn_trajectory_quality_v1",
]


def judged_by(model, metric, **more):
    options = {"judge_model": model, "num_samples": 3}
    return {"criteria": {metric: {"threshold": 0.5, "judge_model_options": options, **more}}}


@pytest.mark.parametrize("metric", JUDGED)
@pytest.mark.parametrize(("model", "score"), [("judge-yes", 1.0), ("judge-no", 0.0)])
async def test_a_judge_without_a_network_decides(play, metric, model, score):
    more = {"rubrics": [RUBRIC]} if metric.startswith("rubric") else {}
    run = await play(
        evalset(case("a", turn("in Rome", "It is sunny."))),
        agents.talker("It is sunny."),
        judged_by(model, metric, **more),
    )
    _, results = await attempt_of(run)
    overall = results[metric, None]
    assert (overall.score, overall.status) == (score, "passed" if score else "failed"), overall.reason
    if more:
        rubric = json.loads(overall.details)["rubrics"][0]
        assert (rubric["rubric_id"], rubric["text"], rubric["score"]) == (
            "greets",
            "The answer greets.",
            score,
        )


@pytest.mark.parametrize("metric", JUDGED)
@pytest.mark.parametrize("model", ["judge-babbles", "judge-raises", "judge_nobody_knows"])
async def test_judge_without_verdict_is_reported_and_does_not_pass(play, metric, model):
    more = {"rubrics": [RUBRIC]} if metric.startswith("rubric") else {}
    run = await play(
        evalset(case("a", turn("in Rome", "It is sunny."))),
        agents.talker("It is sunny."),
        judged_by(model, metric, **more),
    )
    attempt, results = await attempt_of(run)
    overall = results[metric, None]
    assert overall.status == Status.NOT_EVALUATED
    assert overall.reason
    if model == "judge-raises" and metric != "hallucinations_v1":  # which swallows what its judge raises
        assert "out for lunch" in overall.reason
    if model == "judge_nobody_knows":
        assert "judge_nobody_knows" in overall.reason
    assert attempt.status == EvalAttempt.Status.INCOMPLETE


async def test_judge_replies_are_stored(play):
    run = await play(
        evalset(case("a", turn("in Rome", "It is sunny."))),
        looks_up,
        judged_by("judge-babbles", "final_response_match_v2"),
    )
    _, results = await attempt_of(run)
    assert (
        json.loads(results["final_response_match_v2", None].details)["judge_answers"]
        == ["I like turtles."] * 3
    )


async def test_rubrics_of_case_and_turn_are_judged(play):
    typed = {**RUBRIC, "type": "FINAL_RESPONSE_QUALITY"}
    document = evalset(case("a", turn("in Rome", "It is sunny."), rubrics=[typed]))
    run = await play(
        document,
        agents.talker("It is sunny."),
        judged_by("judge-yes", "rubric_based_final_response_quality_v1"),
    )
    assert run.passed == 1


async def test_rubric_metric_without_rubrics_says_so(play):
    document = evalset(case("a", turn("in Rome", "It is sunny.")))
    run = await play(
        document,
        agents.talker("It is sunny."),
        judged_by("judge-yes", "rubric_based_final_response_quality_v1"),
    )
    _, results = await attempt_of(run)
    assert "has no rubrics" in results["rubric_based_final_response_quality_v1", None].reason


async def test_custom_metric_decides(play):
    config = {
        "criteria": {"mine": 0.5},
        "custom_metrics": {"mine": {"code_config": {"name": "tests.evals.own_metrics.says_sunny"}}},
    }
    document = evalset(case("yes", turn("in Rome", "It is sunny.")), case("no", turn("hidden", "?")))
    run = await play(document, lambda ctx, text: "sunny" if "Rome" in text else "rain", config)
    assert (run.passed, run.failed) == (1, 1)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("nothing_here", "Could not import custom metric function"),
        ("raises", "tests.evals.own_metrics.raises raised ZeroDivisionError: division by zero"),
        ("exits", "tests.evals.own_metrics.exits raised SystemExit: 3"),
        ("divides_by_nothing", "The metric gave nan, which is no score."),
        ("returns_a_number", "returned float, not an EvaluationResult"),
        ("passes_without_a_score", "The metric says that it passed, and gives no score."),
        ("abstains", "tests.evals.own_metrics.abstains gave no verdict."),
        (
            "abstains_on_the_last_turn",
            "Turn 1 could not be judged. tests.evals.own_metrics.abstains_on_the_last_turn gave no verdict.",
        ),
    ],
)
async def test_broken_custom_metric_reports_its_error(play, function, reason):
    config = {
        "criteria": {"mine": 0.5},
        "custom_metrics": {"mine": {"code_config": {"name": f"tests.evals.own_metrics.{function}"}}},
    }
    run = await play(evalset(case("a", turn("in Rome", "It is sunny."))), looks_up, config)
    _, results = await attempt_of(run)
    assert reason in results["mine", None].reason
    assert run.incomplete == 1


async def test_a_scenario_is_played_by_a_simulated_user(play):
    document = evalset(
        {
            "eval_id": "scenario",
            "conversation_scenario": {"starting_prompt": "in Rome", "conversation_plan": "Ask once."},
        }
    )
    config = {
        "criteria": {"response_match_score": 0.5},
        "user_simulator_config": {"type": "llm_backed", "model": "judge-yes", "max_allowed_invocations": 1},
    }
    run = await play(document, looks_up, config)
    attempt, results = await attempt_of(run)
    assert len(json.loads(attempt.actual)) == 1
    assert "no expected conversation" in results["response_match_score", None].reason
    assert attempt.status == EvalAttempt.Status.INCOMPLETE


def thinks(ctx, text):
    parts = [types.Part(text="where is it", thought=True), types.Part(text="Paris")]
    return Event(author="agent", content=types.Content(role="model", parts=parts))


@pytest.mark.parametrize("sign", ["👍", "{}", "€", "+", "…", ":-)"])
async def test_identical_answers_without_letters_explain_their_score(play, sign):
    run = await play(evalset(case("a", turn("say it", sign))), lambda ctx, text: sign)
    _, results = await attempt_of(run)
    result = results["response_match_score", None]
    assert (result.score, result.status) == (0, Status.FAILED)
    assert result.reason == "The expected answer in turn 1 has no letter or digit, which scores 0."


@pytest.mark.parametrize("text", ["❤️", "½", "สวัสดี", "Ⅷ", "你好"])
async def test_what_rouge_compares_is_not_called_signs(play, text):
    run = await play(evalset(case("a", turn("say it", text))), lambda ctx, message: text)
    _, results = await attempt_of(run)
    assert (results["response_match_score", None].score, results["response_match_score", None].reason) == (
        1,
        "",
    )


async def test_answer_without_letters_explains_its_score(play):
    run = await play(evalset(case("a", turn("say it", "yes"))), lambda ctx, text: "👍")
    _, results = await attempt_of(run)
    assert (
        results["response_match_score", None].reason
        == "The answer in turn 1 has no letter or digit, which scores 0."
    )


async def test_thoughts_that_count_are_marked(play):
    run = await play(evalset(case("a", turn("where", "Paris"))), thinks)
    attempt, results = await attempt_of(run)
    result = results["response_match_score", None]
    assert (result.score, result.reason) == (0.4, "Thoughts count as part of an answer.")
    [details] = await units_of_work.read(lambda: attempt_detail.detail(attempt, is_complete=False).turns)
    assert "".join(piece.text for piece in details.actual) == "[thought] where is it\nParis"


async def test_model_calls_that_adk_does_not_count_are_named(play):
    run = await play(evalset(case("a", turn("where", "Paris"))), agents.talker("Paris"))
    attempt, results = await attempt_of(run)
    assert results["inference_call_count_v1", None].score == 0
    details = await units_of_work.read(lambda: attempt_detail.detail(attempt, is_complete=False))
    assert details.uncounted_calls == 1
    page = await units_of_work.read(
        lambda: render_to_string("devui/evals/attempt_reported_scores.html", {"detail": details})
    )
    assert "1 call not counted" in page
