"""Private names of ADK that the execution of evals uses exist and accept its arguments."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from google.adk.cli.cli_tools_click import main as command_line
from google.adk.evaluation import request_intercepter_plugin
from google.adk.evaluation.conversation_scenarios import ConversationScenario
from google.adk.evaluation.eval_case import EvalCase
from google.adk.evaluation.eval_config import EvalConfig
from google.adk.evaluation.evaluation_generator import EvaluationGenerator
from google.adk.evaluation.evaluator import Evaluator
from google.adk.evaluation.hallucinations_v1 import HallucinationsV1Evaluator
from google.adk.evaluation.rubric_based_evaluator import RubricBasedEvaluator
from google.adk.evaluation.simulation.llm_backed_user_simulator import LlmBackedUserSimulatorConfig
from google.adk.evaluation.simulation.user_simulator_provider import UserSimulatorProvider

from evals_app import files as evalsets
from evals_app.cases.case_forms import RUBRIC_TYPES
from evals_app.execution import _adk
from evals_app.execution.evaluators import (
    build_evaluator,
    build_metrics,
    evaluator_class,
    missing_requirement,
)
from evals_app.metrics import catalog
from evals_app.metrics.metric import MetricKind
from sessions_app.store.scopes import EVALUATION_KEY
from tests.evals import agents  # noqa: F401 - registers the judges


def test_evalset_from_adks_command_line_is_read(tmp_path):
    (tmp_path / "weather").mkdir()
    scenarios = {
        "scenarios": [{"starting_prompt": "hi", "conversation_plan": "leave", "user_persona": "NOVICE"}]
    }
    start = {"app_name": "weather", "user_id": "ann", "state": {"n": 1}}
    for name, document in (("scenarios.json", scenarios), ("start.json", start)):
        (tmp_path / name).write_text(json.dumps(document))
    files = [
        "--scenarios_file",
        f"{tmp_path}/scenarios.json",
        "--session_input_file",
        f"{tmp_path}/start.json",
    ]
    for command in (["create"], ["add_eval_case", *files]):
        arguments = ["eval_set", command[0], f"{tmp_path}/weather", "trips", *command[1:]]
        assert CliRunner().invoke(command_line, arguments).exit_code == 0
    content = evalsets.read_file(tmp_path / "weather/trips.evalset.json")
    assert not content.warnings
    assert content.cases[0].session_input.state == {"n": 1}
    assert content.cases[0].conversation_scenario.user_persona.id == "NOVICE"


GIVEN = {
    "root_agent",
    "user_simulator",
    "initial_session",
    "session_id",
    "session_service",
    "artifact_service",
    "memory_service",
    "app",
}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("_generate_inferences_from_root_agent", set()),
        ("_generate_inferences_from_root_agent_live", {"live_timeout_seconds"}),
    ],
)
def test_inference_accepts_our_arguments(name, more):
    assert set(inspect.signature(getattr(EvaluationGenerator, name)).parameters) >= GIVEN | more


def test_evaluators_of_always_reported_metrics_exist():
    assert set(_adk.EFFICIENCY) == set(catalog.INFORMATIONAL_METRICS)


def test_evaluator_of_custom_metric_takes_its_function():
    assert set(inspect.signature(_adk._CustomMetricEvaluator).parameters) == {
        "eval_metric",
        "custom_function_path",
    }


def test_nested_agents_are_loaded_by_adks_loader():
    from google.adk.cli.utils._nested_agent_loader import NestedAgentLoader

    assert callable(NestedAgentLoader.load_agent)


@pytest.mark.parametrize("name", [name for name in catalog.ADK_METRICS if not missing_requirement(name)])
def test_every_available_metric_has_an_evaluator(name):
    assert issubclass(evaluator_class(name), Evaluator)


def test_the_evaluators_are_those_of_adks_registry():
    """The registry itself needs pandas: its source is read."""
    import google.adk.evaluation as package

    from evals_app.execution.evaluators import _EVALUATORS

    registered = Path(package.__path__[0], "metric_evaluator_registry.py").read_text(encoding="utf-8")
    for name, place in _EVALUATORS.items():
        module, _, cls = place.partition(":")
        if name != "response_match_score":
            assert f"from .{module} import {cls}" in registered, name


@pytest.mark.parametrize("name", [name for name, metric in catalog.ADK_METRICS.items() if metric.uses_judge])
def test_judge_model_is_where_we_read_it(name):
    options = {"judge_model": "judge-yes"}
    config = EvalConfig.model_validate(
        {"criteria": {name: {"threshold": 0.5, "judge_model_options": options}}}
    )
    requests = []
    _adk.replace_model(
        build_evaluator(build_metrics(config)[0]), lambda model: requests.append(model.model) or model
    )
    assert requests == ["judge-yes"]


@pytest.mark.parametrize(
    ("cls", "name", "parameters"),
    [
        (RubricBasedEvaluator, "_evaluate_single_sample", ["self", "llm_request", "actual", "expected"]),
        (HallucinationsV1Evaluator, "_get_steps_to_evaluate", ["self", "actual"]),
        (HallucinationsV1Evaluator, "_evaluate_nl_response", ["self", "nl_response", "context"]),
    ],
)
def test_methods_of_judging_evaluators_accept_our_arguments(cls, name, parameters):
    assert [*inspect.signature(getattr(cls, name)).parameters] == parameters


def test_user_simulator_model_is_where_we_read_it():
    settings = LlmBackedUserSimulatorConfig(model="judge-yes")
    scenario = ConversationScenario(starting_prompt="Hello", conversation_plan="Bye")
    case = EvalCase(eval_id="a", conversation_scenario=scenario)
    requests = []
    simulator = UserSimulatorProvider(settings).provide(case)
    _adk.replace_model(simulator, lambda model: requests.append(model.model) or model)
    assert requests == ["judge-yes"]


def test_callbacks_are_called_like_in_adk():
    assert _adk.invoke_callback(
        lambda tool, args, tool_context: (tool, args), tool=1, args=2, tool_context=3
    ) == (1, 2)
    assert _adk.invoke_callback(lambda item, other: (item, other), callback_context=1, llm_request=2) == (
        1,
        2,
    )


def test_key_written_by_adks_evaluation_is_known():
    assert request_intercepter_plugin._LLM_REQUEST_ID_KEY == EVALUATION_KEY


def test_rubrics_of_a_case_are_of_the_types_that_adks_metrics_judge():
    judging = [name for name, metric in catalog.ADK_METRICS.items() if metric.kind is MetricKind.RUBRICS]
    assert {vars(evaluator_class(name))["RUBRIC_TYPE"] for name in judging} == set(RUBRIC_TYPES)
