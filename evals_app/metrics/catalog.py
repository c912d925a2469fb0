"""Catalog of metrics without an import of ADK: ranges, defaults and former names.

`google/adk/evaluation/{eval_metrics,metric_info_providers,eval_config}.py`; a test compares this table with them.
"""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from evals_app.metrics.expected_state import STATE_MATCH


class MetricKind(StrEnum):
    """The way in which a metric computes its score."""

    EXACT = "exact"
    JUDGE = "judge"
    RUBRICS = "rubrics"
    SIMULATOR = "simulator"
    VERTEX = "vertex"
    INFORMATIONAL = "informational"
    CUSTOM = "custom"
    STATE = "state"


KIND_DESCRIPTIONS = {
    MetricKind.EXACT: "computed from the expected turn",
    MetricKind.JUDGE: "a model judges",
    MetricKind.RUBRICS: "a model judges by rubrics",
    MetricKind.SIMULATOR: "a model judges the simulated user",
    MetricKind.VERTEX: "Vertex AI judges",
    MetricKind.INFORMATIONAL: "reported, never judged",
    MetricKind.CUSTOM: "your own function",
    MetricKind.STATE: "computed from the expected state, where a case has one",
}


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `low` and `high` bound its score (higher is better); None: unbounded."""

    name: str
    kind: MetricKind
    says: str
    low: float | None = 0.0
    high: float | None = 1.0
    default: float | None = None

    @property
    def judged(self) -> bool:
        """Tell whether the metric uses a judge model."""
        return self.kind in {MetricKind.JUDGE, MetricKind.RUBRICS, MetricKind.SIMULATOR}

    @property
    def label(self) -> str:
        """A short name for column heads."""
        return label_of(self.name)

    @property
    def how(self) -> str:
        """The way in which the metric computes its score, in words."""
        return KIND_DESCRIPTIONS[self.kind]


_TABLE = (
    Metric(
        "tool_trajectory_avg_score",
        MetricKind.EXACT,
        "Share of turns whose tool calls are the expected ones.",
        default=1.0,
    ),
    Metric(
        "response_match_score",
        MetricKind.EXACT,
        "ROUGE-1 overlap of answer and expected answer.",
        default=0.8,
    ),
    Metric("final_response_match_v2", MetricKind.JUDGE, "Share of answers that mean what was expected."),
    Metric("hallucinations_v1", MetricKind.JUDGE, "Share of sentences that the context supports."),
    Metric("rubric_based_final_response_quality_v1", MetricKind.RUBRICS, "Rubrics the answer fulfils."),
    Metric("rubric_based_tool_use_quality_v1", MetricKind.RUBRICS, "Rubrics the tool calls fulfil."),
    Metric(
        "rubric_based_multi_turn_trajectory_quality_v1",
        MetricKind.RUBRICS,
        "Rubrics the conversation fulfils.",
    ),
    Metric(
        "per_turn_user_simulator_quality_v1",
        MetricKind.SIMULATOR,
        "Share of simulated messages true to the scenario.",
    ),
    Metric("response_evaluation_score", MetricKind.VERTEX, "Coherence of the answer.", low=1.0, high=5.0),
    Metric("safety_v1", MetricKind.VERTEX, "Harmlessness of the answer."),
    Metric("multi_turn_task_success_v1", MetricKind.VERTEX, "Goals of the conversation that were reached."),
    Metric("multi_turn_trajectory_quality_v1", MetricKind.VERTEX, "Quality of the way to the goal."),
    Metric("multi_turn_tool_use_quality_v1", MetricKind.VERTEX, "Quality of the tool calls over all turns."),
    Metric("tool_call_count_v1", MetricKind.INFORMATIONAL, "Tool calls a turn.", low=None, high=None),
    Metric("inference_call_count_v1", MetricKind.INFORMATIONAL, "Model calls a turn.", low=None, high=None),
    Metric("token_usage_v1", MetricKind.INFORMATIONAL, "Tokens a turn.", low=None, high=None),
    Metric("invocation_duration_v1", MetricKind.INFORMATIONAL, "Seconds a turn.", low=None, high=None),
)
ADK_METRICS = {metric.name: metric for metric in _TABLE}
"""ADK's metrics."""

STATE_METRIC = Metric(
    STATE_MATCH, MetricKind.STATE, "Share of expected state keys that have their value.", default=1.0
)
"""DevUI's metric, applied where a case expects a state. It is not in ADK's registry."""

ALL_METRICS = {**ADK_METRICS, STATE_METRIC.name: STATE_METRIC}
INFORMATIONAL_METRICS = tuple(metric.name for metric in _TABLE if metric.kind is MetricKind.INFORMATIONAL)

FORMER_NAMES = {
    "tool_trajectory": "tool_trajectory_avg_score",
    "tool_trajectory_score": "tool_trajectory_avg_score",
    "response_match": "response_match_score",
    "response_quality": "rubric_based_final_response_quality_v1",
    "final_response_match": "final_response_match_v2",
    "final_response_match_v1": "response_match_score",
    "final_response_quality": "rubric_based_final_response_quality_v1",
    "rubric_based_final_response_quality": "rubric_based_final_response_quality_v1",
    "rubric_based_tool_use_quality": "rubric_based_tool_use_quality_v1",
    "rubric_based_tool_use": "rubric_based_tool_use_quality_v1",
    "tool_use_quality": "rubric_based_tool_use_quality_v1",
    "hallucination": "hallucinations_v1",
    "hallucinations": "hallucinations_v1",
    "hallucination_score": "hallucinations_v1",
    "safety": "safety_v1",
    "response_evaluation": "response_evaluation_score",
    "coherence": "response_evaluation_score",
    "user_simulator_quality": "per_turn_user_simulator_quality_v1",
    "multi_turn_task_success": "multi_turn_task_success_v1",
    "multi_turn_trajectory_quality": "multi_turn_trajectory_quality_v1",
    "multi_turn_tool_use_quality": "multi_turn_tool_use_quality_v1",
    "tool_call_count": "tool_call_count_v1",
    "inference_call_count": "inference_call_count_v1",
    "token_usage": "token_usage_v1",
    "invocation_duration": "invocation_duration_v1",
    "state_match": STATE_MATCH,
    "final_session_state": STATE_MATCH,
}
"""Former name of a metric → its current name."""


NEEDS_VERTEX = "Cannot run: needs the vertex extra (pip install 'devui[vertex]') and a Google Cloud project."
_VERTEX_MODULES = ("pandas", "vertexai")


def missing_requirement(name: str) -> str:
    """Return why a metric cannot run with the installed packages, or ""."""
    metric = ADK_METRICS.get(name)
    if metric is None or metric.kind is not MetricKind.VERTEX:
        return ""
    return NEEDS_VERTEX if any(importlib.util.find_spec(module) is None for module in _VERTEX_MODULES) else ""


_ENDINGS = ("_avg_score", "_score", "_v1", "_v2")
_PREFIX = "devui_"


def label_of(name: str) -> str:
    """Return a metric's name as a column head: in words, without its suffix."""
    name = name.removeprefix(_PREFIX)
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return name.replace("_", " ").strip()


def suggest_name(name: str, names: Iterable[str] = ALL_METRICS) -> str:
    """Return the metric most similar to an unknown name, or ""."""
    if name.lower() in FORMER_NAMES:
        return FORMER_NAMES[name.lower()]
    near = difflib.get_close_matches(name.lower(), list(names), n=1, cutoff=0.6)
    return near[0] if near else ""
