"""Catalog of metrics: ADK's with their options, DevUI's own, and those of installed packages. No import of ADK.

The table of ADK's metrics follows `google/adk/evaluation/{eval_metrics,metric_info_providers,eval_config}.py`; tests
compare them.
"""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from evals_app.metrics.criterion_options import JUDGE, Option, Widget
from evals_app.metrics.metric import Metric, MetricKind
from evals_app.metrics.own import OwnMetric
from sessions_app.plugins import METRICS, Registry, import_modules

MATCH_TYPE = Option(
    "match_type",
    "How tool calls must match",
    Widget.CHOICE,
    "EXACT",
    (
        ("EXACT", "exactly these, in order"),
        ("IN_ORDER", "these in order, others between"),
        ("ANY_ORDER", "these in any order"),
    ),
)
IGNORE_ARGS = Option("ignore_args", "ignore arguments", Widget.FLAG, False)
INCLUDE_NESTED = Option("include_nested", "count calls of nested agents, too", Widget.FLAG, False)
"""DevUI's own option, which ADK ignores."""
RUBRICS = Option("rubrics", "Rubrics, one per line", Widget.RUBRICS, (), placeholder="id: what must be true")
WITH_STEPS = Option(
    "include_intermediate_responses_in_final", "judge intermediate texts, too", Widget.FLAG, False
)
STEPS = Option("evaluate_intermediate_nl_responses", "judge intermediate texts, too", Widget.FLAG, False)
STOP = Option("stop_signal", "Text that ends the conversation", Widget.TEXT, "</finished>")

TRAJECTORY = "tool_trajectory_avg_score"
RESPONSE_MATCH = "response_match_score"
COMPARES_ANSWERS = frozenset({RESPONSE_MATCH, "final_response_match_v2"})
"""Metrics that compare an answer with the expected one."""

_TABLE = (
    Metric(
        TRAJECTORY,
        MetricKind.EXACT,
        "Share of turns whose tool calls are the expected ones.",
        default=1.0,
        options=(MATCH_TYPE, IGNORE_ARGS, INCLUDE_NESTED),
    ),
    Metric(
        RESPONSE_MATCH,
        MetricKind.EXACT,
        "ROUGE-1 overlap of answer and expected answer.",
        default=0.8,
    ),
    Metric(
        "final_response_match_v2",
        MetricKind.JUDGE,
        "Share of answers that mean what was expected.",
        options=(*JUDGE, WITH_STEPS),
    ),
    Metric(
        "hallucinations_v1",
        MetricKind.JUDGE,
        "Share of sentences that the context supports.",
        options=(*JUDGE, STEPS),
    ),
    Metric(
        "rubric_based_final_response_quality_v1",
        MetricKind.RUBRICS,
        "Rubrics the answer fulfils.",
        options=(RUBRICS, *JUDGE, WITH_STEPS),
    ),
    Metric(
        "rubric_based_tool_use_quality_v1",
        MetricKind.RUBRICS,
        "Rubrics the tool calls fulfil.",
        options=(RUBRICS, *JUDGE),
    ),
    Metric(
        "rubric_based_multi_turn_trajectory_quality_v1",
        MetricKind.RUBRICS,
        "Rubrics the conversation fulfils.",
        options=(RUBRICS, *JUDGE),
    ),
    Metric(
        "per_turn_user_simulator_quality_v1",
        MetricKind.SIMULATOR,
        "Share of simulated messages true to the scenario.",
        options=(*JUDGE, STOP),
    ),
    Metric("response_evaluation_score", MetricKind.VERTEX, "Coherence of the answer.", low=1.0, high=5.0),
    Metric("safety_v1", MetricKind.VERTEX, "Harmlessness of the answer."),
    Metric("multi_turn_task_success_v1", MetricKind.VERTEX, "Goals of the conversation that were reached."),
    Metric("multi_turn_trajectory_quality_v1", MetricKind.VERTEX, "Quality of the way to the goal."),
    Metric("multi_turn_tool_use_quality_v1", MetricKind.VERTEX, "Quality of the tool calls over all turns."),
    Metric("tool_call_count_v1", MetricKind.INFORMATIONAL, "Tool calls per turn.", low=None, high=None),
    Metric("inference_call_count_v1", MetricKind.INFORMATIONAL, "Model calls per turn.", low=None, high=None),
    Metric("token_usage_v1", MetricKind.INFORMATIONAL, "Tokens per turn.", low=None, high=None),
    Metric("invocation_duration_v1", MetricKind.INFORMATIONAL, "Seconds per turn.", low=None, high=None),
)
ADK_METRICS = {metric.name: metric for metric in _TABLE}
"""ADK's metrics."""

RUBRIC_TYPES = {
    "rubric_based_final_response_quality_v1": "FINAL_RESPONSE_QUALITY",
    "rubric_based_tool_use_quality_v1": "TOOL_USE_QUALITY",
    "rubric_based_multi_turn_trajectory_quality_v1": "TRAJECTORY_QUALITY",
}
"""Metric of ADK → type of the rubrics of a case or turn that it uses. None uses rubrics without a type."""

INFORMATIONAL_METRICS = tuple(metric.name for metric in _TABLE if metric.kind is MetricKind.INFORMATIONAL)

FORMER_NAMES = {
    "response_quality": "rubric_based_final_response_quality_v1",
    "final_response_match_v1": "response_match_score",
    "final_response_quality": "rubric_based_final_response_quality_v1",
    "tool_use_quality": "rubric_based_tool_use_quality_v1",
    "coherence": "response_evaluation_score",
}
"""Former name of a metric of ADK → its current name, where it is not the most similar one."""


_OWN_METRICS = Registry(OwnMetric, METRICS, lambda: import_modules("evals_app.metrics.own"))


@cache
def own_metrics() -> Mapping[str, OwnMetric]:
    """Return DevUI's own metrics by name, then those of installed packages.

    A plugin that names no metric, or one whose name is in use, is logged and omitted.
    """
    return _OWN_METRICS.by_name(lambda metric: metric.name, taken=ADK_METRICS)


def all_metrics() -> dict[str, Metric]:
    """Return ADK's metrics by name, then DevUI's own and those of installed packages."""
    return {**ADK_METRICS, **own_metrics()}


NEEDS_VERTEX = "Cannot run: needs the vertex extra (pip install 'devui[vertex]') and a Google Cloud project."
_VERTEX_MODULES = ("pandas", "vertexai")


def missing_requirement(name: str) -> str:
    """Return why a metric cannot run with the installed packages, or ""."""
    metric = ADK_METRICS.get(name)
    if metric is None or metric.kind is not MetricKind.VERTEX:
        return ""
    return NEEDS_VERTEX if any(importlib.util.find_spec(module) is None for module in _VERTEX_MODULES) else ""


def describe(metric: Metric) -> dict[str, Any]:
    """Return a metric as JSON values. `reason` says why it cannot run here; "" if it can."""
    return {
        "name": metric.name,
        "kind": str(metric.kind),
        "says": metric.description,
        "low": metric.low,
        "high": metric.high,
        "default": metric.default,
        "reason": missing_requirement(metric.name),
    }


def suggest_name(name: str, names: Iterable[str]) -> str:
    """Return the metric most similar to an unknown name, or ""."""
    current_names = {
        former: metric.name for metric in own_metrics().values() for former in metric.former_names
    }
    if current := {**current_names, **FORMER_NAMES}.get(name.lower()):
        return current
    near = difflib.get_close_matches(name.lower(), list(names), n=1, cutoff=0.6)
    return near[0] if near else ""
