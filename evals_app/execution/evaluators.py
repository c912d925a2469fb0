"""ADK's evaluators, created one by one without the `google-adk[eval]` extra that ADK's registry needs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, cast

from google.adk.evaluation.eval_config import EvalConfig, get_eval_metrics_from_config
from google.adk.evaluation.eval_metrics import EvalMetric
from google.adk.evaluation.evaluator import Evaluator
from pydantic import ValidationError

from evals_app.execution.rouge_import import import_rouge_score
from evals_app.metrics import catalog
from evals_app.metrics.catalog import NEEDS_VERTEX, missing_requirement
from sessions_app.store.errors import BadInput

_PACKAGE = "google.adk.evaluation"
_EVALUATORS = {
    "tool_trajectory_avg_score": "trajectory_evaluator:TrajectoryEvaluator",
    "response_match_score": "final_response_match_v1:RougeEvaluator",
    "final_response_match_v2": "final_response_match_v2:FinalResponseMatchV2Evaluator",
    "hallucinations_v1": "hallucinations_v1:HallucinationsV1Evaluator",
    "rubric_based_final_response_quality_v1": (
        "rubric_based_final_response_quality_v1:RubricBasedFinalResponseQualityV1Evaluator"
    ),
    "rubric_based_tool_use_quality_v1": "rubric_based_tool_use_quality_v1:RubricBasedToolUseV1Evaluator",
    "rubric_based_multi_turn_trajectory_quality_v1": (
        "rubric_based_multi_turn_trajectory_evaluator:RubricBasedMultiTurnTrajectoryEvaluator"
    ),
    "per_turn_user_simulator_quality_v1": (
        "simulation.per_turn_user_simulator_quality_v1:PerTurnUserSimulatorQualityV1"
    ),
    "response_evaluation_score": "response_evaluator:ResponseEvaluator",
    "safety_v1": "safety_evaluator:SafetyEvaluatorV1",
    "multi_turn_task_success_v1": "multi_turn_task_success_evaluator:MultiTurnTaskSuccessV1Evaluator",
    "multi_turn_trajectory_quality_v1": (
        "multi_turn_trajectory_quality_evaluator:MultiTurnTrajectoryQualityV1Evaluator"
    ),
    "multi_turn_tool_use_quality_v1": (
        "multi_turn_tool_use_quality_evaluator:MultiTurnToolUseQualityV1Evaluator"
    ),
}
"""Metric → module and class, as `metric_evaluator_registry` has them (which itself needs pandas and Vertex).
`response_match_score` is ROUGE-1 there too, behind `ResponseEvaluator`."""


class MetricUnavailable(Exception):
    """A metric cannot run here; the text is the reason."""


def describe_metrics() -> list[dict[str, Any]]:
    """Return ADK's metrics as JSON objects, see `catalog.describe`, with whether each can run in this process."""
    return [catalog.describe(metric) for metric in catalog.ADK_METRICS.values()]


def read_config(data: Mapping[str, Any]) -> EvalConfig:
    """Return a configuration as ADK's class.

    Raises:
        BadInput: ADK refuses it.
    """
    try:
        return EvalConfig.model_validate(data)
    except ValidationError as error:
        raise BadInput(
            f"ADK refuses the configuration: {_first_problem(error)}", hint="Correct test_config.json."
        ) from error


def build_metrics(config: EvalConfig) -> list[EvalMetric]:
    """Return the metrics of a configuration in order, followed by those that are always reported.

    Raises:
        BadInput: a criterion is invalid for its metric.
    """
    metrics = get_eval_metrics_from_config(config)
    for metric in metrics:
        _check_criterion(metric)
    return metrics


def _check_criterion(metric: EvalMetric) -> None:
    name = metric.metric_name
    if (
        metric.criterion is None
        or metric.custom_function_path
        or name not in catalog.ADK_METRICS
        or missing_requirement(name)
    ):
        return
    criterion_type = evaluator_class(metric.metric_name).criterion_type
    try:
        criterion_type.model_validate(metric.criterion.model_dump())
    except ValidationError as error:
        raise BadInput(
            f"The criterion of {metric.metric_name} is invalid: {_first_problem(error)}",
            hint=f"Fields: {', '.join(criterion_type.model_fields)}.",
        ) from error


def evaluator_class(name: str) -> type[Evaluator]:
    """Return ADK's evaluator class of a metric.

    Raises:
        MetricUnavailable: packages that it needs are not installed.
        KeyError: the metric is uncatalog.
    """
    from evals_app.execution import _adk

    if name in _adk.EFFICIENCY:
        return _adk.EFFICIENCY[name]
    module, _, attribute = _EVALUATORS[name].partition(":")
    try:
        if name == "response_match_score":
            import_rouge_score()
        return cast(type[Evaluator], getattr(importlib.import_module(f"{_PACKAGE}.{module}"), attribute))
    except ImportError as error:
        raise MetricUnavailable(
            NEEDS_VERTEX if missing_requirement(name) else f"Cannot run: {error}"
        ) from error


def build_evaluator(metric: EvalMetric) -> Evaluator:
    """Return a new evaluator for a metric.

    Raises:
        MetricUnavailable: the metric cannot run here.
    """
    from evals_app.execution import _adk

    if metric.custom_function_path:
        try:
            return _adk.custom_evaluator(metric)
        except ImportError as error:
            raise MetricUnavailable(f"Cannot run: {error} ({error.__cause__})") from error
    if reason := missing_requirement(metric.metric_name):
        raise MetricUnavailable(reason)
    if metric.metric_name not in catalog.ADK_METRICS:
        raise MetricUnavailable(
            f"There is no metric {metric.metric_name!r}: is the package installed that adds it?"
        )
    return _adk.make_evaluator(evaluator_class(metric.metric_name), metric)


def _first_problem(error: ValidationError) -> str:
    details = error.errors()[0]
    return f"{'.'.join(str(part) for part in details['loc'])}: {details['msg']}"
