"""The run form has all options of metrics, simulated users and replays, and loses no setting."""

from __future__ import annotations

import json

import pytest
from django.http import QueryDict
from google.adk.evaluation import eval_metrics
from google.adk.evaluation.simulation.llm_backed_user_simulator import LlmBackedUserSimulatorConfig
from google.genai.types import GenerateContentConfig

from evals_app.execution.evaluators import evaluator_class
from evals_app.metrics import config, criterion_options
from evals_app.metrics.catalog import ADK_METRICS, INCLUDE_NESTED, missing_requirement
from evals_app.metrics.config import RunConfig
from evals_app.models import EvalRun
from evals_app.runs import run_form
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput
from tests.evals.builders import case, turn, write
from tests.evals.web_pages import get_page, start_run

RUBRIC = {"rubric_id": "greets", "rubric_content": {"text_property": "It greets."}, "type": "T"}


def form_data(**fields):
    form = QueryDict(mutable=True)
    for name, value in fields.items():
        form.setlist(name, value if isinstance(value, list) else [value])
    return form


def of(metric, **options):
    """What the form sends for one metric."""
    fields = {f"option:{metric}:{name.replace('__', '.')}": value for name, value in options.items()}
    return {"metric": [metric], f"threshold:{metric}": "0.5", "options": [metric], **fields}


@pytest.mark.parametrize("name", [name for name in ADK_METRICS if not missing_requirement(name)])
def test_every_field_of_a_criterion_of_adk_has_an_option(name):
    fields = set(getattr(evaluator_class(name), "criterion_type", eval_metrics.BaseCriterion).model_fields)
    shown = {
        option.name.split(".")[0] for option in ADK_METRICS[name].options if option is not INCLUDE_NESTED
    }
    assert shown <= fields
    # What the base class has is read by one kind of metric alone; the rest stays the file's to say.
    assert fields - shown <= {"threshold", "include_intermediate_responses_in_final"}
    judge = {option.name for option in criterion_options.JUDGE}
    assert {
        f"judge_model_options.{field}" for field in eval_metrics.JudgeModelOptions.model_fields
    } - judge == {"judge_model_options.judge_model_config"}


def test_every_field_of_a_simulated_user_has_an_option():
    fields = set(LlmBackedUserSimulatorConfig.model_fields) - {"type", "model_configuration"}
    assert {option.name for option in criterion_options.SIMULATOR_OPTIONS} == fields
    assert (
        LlmBackedUserSimulatorConfig.model_fields["model_configuration"].annotation is GenerateContentConfig
    )


def test_an_option_that_was_not_changed_leaves_the_file_as_it_is():
    criterion = {
        "threshold": 0.5,
        "judgeModelOptions": {"judgeModel": "a", "judge_model_config": {"seed": 1}},
    }
    config = RunConfig({"criteria": {"hallucinations_v1": criterion}}, "the file")
    order = run_form.order_from_form(
        form_data(**of("hallucinations_v1", judge_model_options__judge_model="a")), config
    )
    assert order.config.data == config.data
    assert order.config.source == "the file"


def test_changed_option_is_written_and_others_stay():
    criterion = {
        "threshold": 0.5,
        "judgeModelOptions": {"judgeModel": "a", "judge_model_config": {"seed": 1}},
    }
    config = RunConfig({"criteria": {"hallucinations_v1": criterion}}, "the file")
    form = of(
        "hallucinations_v1",
        judge_model_options__judge_model="b",
        judge_model_options__num_samples="3",
        evaluate_intermediate_nl_responses="1",
    )
    order = run_form.order_from_form(form_data(**form), config)
    assert order.config.criteria["hallucinations_v1"] == {
        "threshold": 0.5,
        "judge_model_options": {"judge_model_config": {"seed": 1}, "judge_model": "b", "num_samples": 3},
        "evaluate_intermediate_nl_responses": True,
    }
    assert order.config.source == "the file, changed in the form"


def test_rubrics_are_edited_as_lines_and_other_fields_stay():
    name = "rubric_based_final_response_quality_v1"
    config = RunConfig({"criteria": {name: {"threshold": 0.5, "rubrics": [RUBRIC]}}}, "the file")
    form = of(name, rubrics="greets: It greets twice.\r\n\r\nIt is short.")
    order = run_form.order_from_form(form_data(**form), config)
    assert order.config.criteria[name]["rubrics"] == [
        {"rubric_id": "greets", "rubric_content": {"text_property": "It greets twice."}, "type": "T"},
        {"rubric_id": "rubric_2", "rubric_content": {"text_property": "It is short."}},
    ]
    untouched = run_form.order_from_form(form_data(**of(name, rubrics="greets: It greets.\r\n")), config)
    assert untouched.config.criteria[name]["rubrics"] == [RUBRIC]


def test_default_judge_is_used_for_metrics_without_one():
    config = RunConfig(
        {
            "criteria": {
                "final_response_match_v2": {"threshold": 0.5, "judge_model_options": {"judge_model": "own"}},
                "hallucinations_v1": 0.5,
            }
        },
        "the file",
    )
    form = form_data(
        metric=["final_response_match_v2", "hallucinations_v1"],
        judge_model="all",
        judge_samples="2",
        **{"threshold:final_response_match_v2": "0.5", "threshold:hallucinations_v1": "0.5"},
    )
    judges = {
        name: item["judge_model_options"]
        for name, item in run_form.order_from_form(form, config).config.criteria.items()
    }
    assert judges == {
        "final_response_match_v2": {"judge_model": "own", "num_samples": 2},
        "hallucinations_v1": {"judge_model": "all", "num_samples": 2},
    }


@pytest.mark.parametrize(
    ("metric", "form", "message"),
    [
        ("tool_trajectory_avg_score", {"match_type": "SOMEHOW"}, "none of the choices"),
        ("hallucinations_v1", {"judge_model_options__num_samples": "0"}, "must be 1 to 50"),
        ("hallucinations_v1", {"judge_model_options__num_samples": "many"}, "not a whole number"),
        ("rubric_based_tool_use_quality_v1", {"rubrics": "a: x\na: y"}, "Two rubrics have the id 'a'"),
        ("rubric_based_tool_use_quality_v1", {"rubrics": "a:"}, "has no text"),
    ],
)
def test_invalid_option_is_refused(metric, form, message):
    defaults = {"match_type": "EXACT"} if metric == "tool_trajectory_avg_score" else {}
    with pytest.raises(BadInput, match=message):
        run_form.order_from_form(form_data(**of(metric, **{**defaults, **form})), config.default_config())


SCENARIO = {
    "eval_id": "talks",
    "conversation_scenario": {"starting_prompt": "Hello", "conversation_plan": "- Bye"},
}


@pytest.mark.parametrize("threshold", ["NaN", "Infinity", '{"threshold": -Infinity}'])
async def test_a_threshold_that_is_no_number_leaves_its_field_empty(web, folder, threshold):
    write(folder.path, "s.evalset.json", {"eval_set_id": "s", "eval_cases": [case("a", turn("x"))]})
    write(folder.path, "test_config.json", f'{{"criteria": {{"response_match_score": {threshold}}}}}')
    form = (await get_page(web, "/evals/counter/s/")).one("form", id="run-form")
    [field] = [
        item for item in form.all("input") if item.attrs.get("name") == "threshold:response_match_score"
    ]
    assert field.attrs["value"] == ""
    assert "criteria.response_match_score" in form.text


async def test_scenarios_and_expected_states_have_their_part_of_the_form(web, folder):
    document = {
        "eval_set_id": "s",
        "eval_cases": [SCENARIO, case("a", turn("x"), final_session_state={"k": 1})],
    }
    write(folder.path, "s.evalset.json", document)
    form = (await get_page(web, "/evals/counter/s/")).one("form", id="run-form")
    assert (
        form.one("input", name="option:user_simulator_config:model").attrs["placeholder"]
        == "gemini-2.5-flash"
    )
    assert "devui_state_match" in [field.attrs["value"] for field in form.all("input", name="metric")]


async def test_user_simulator_model_is_chosen_in_the_form(web, process, folder):
    write(folder.path, "s.evalset.json", {"eval_set_id": "s", "eval_cases": [SCENARIO]})
    await start_run(
        web,
        "s",
        options=["user_simulator_config"],
        **{
            "option:user_simulator_config:model": "judge-yes",
            "option:user_simulator_config:max_allowed_invocations": "1",
        },
    )
    run = await units_of_work.read(EvalRun.objects.get)
    assert json.loads(run.config)["user_simulator_config"] == {
        "model": "judge-yes",
        "max_allowed_invocations": 1,
    }
