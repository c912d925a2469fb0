"""What is known of metrics without importing ADK: ranges, defaults, and the names they used to have.

`google/adk/evaluation/{eval_metrics,metric_info_providers,eval_config}.py`; a test holds this table to them.
"""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from evals_app.metrics.expected_state import STATE_MATCH


class Kind(StrEnum):
    """How a metric comes to its score."""

    EXACT = "exact"
    JUDGE = "judge"
    RUBRICS = "rubrics"
    SIMULATOR = "simulator"
    VERTEX = "vertex"
    INFORMATIONAL = "informational"
    CUSTOM = "custom"
    STATE = "state"


KIND_SAYS = {
    Kind.EXACT: "computed from the expected turn",
    Kind.JUDGE: "a model judges",
    Kind.RUBRICS: "a model judges by rubrics",
    Kind.SIMULATOR: "a model judges the simulated user",
    Kind.VERTEX: "Vertex AI judges",
    Kind.INFORMATIONAL: "reported, never judged",
    Kind.CUSTOM: "your own function",
    Kind.STATE: "computed from the expected state, where a case has one",
}


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `low` and `high` bound its score (higher is better); None: unbounded."""

    name: str
    kind: Kind
    says: str
    low: float | None = 0.0
    high: float | None = 1.0
    default: float | None = None

    @property
    def judged(self) -> bool:
        """Tell whether a judge model is asked."""
        return self.kind in {Kind.JUDGE, Kind.RUBRICS, Kind.SIMULATOR}

    @property
    def label(self) -> str:
        """A short name for column heads."""
        return label_of(self.name)

    @property
    def how(self) -> str:
        """How the metric comes to its score, in words."""
        return KIND_SAYS[self.kind]


_TABLE = (
    Metric(
        "tool_trajectory_avg_score",
        Kind.EXACT,
        "Share of turns whose tool calls are the expected ones.",
        default=1.0,
    ),
    Metric("response_match_score", Kind.EXACT, "ROUGE-1 overlap of answer and expected answer.", default=0.8),
    Metric("final_response_match_v2", Kind.JUDGE, "Share of answers that mean what was expected."),
    Metric("hallucinations_v1", Kind.JUDGE, "Share of sentences that the context supports."),
    Metric("rubric_based_final_response_quality_v1", Kind.RUBRICS, "Rubrics the answer fulfils."),
    Metric("rubric_based_tool_use_quality_v1", Kind.RUBRICS, "Rubrics the tool calls fulfil."),
    Metric(
        "rubric_based_multi_turn_trajectory_quality_v1", Kind.RUBRICS, "Rubrics the conversation fulfils."
    ),
    Metric(
        "per_turn_user_simulator_quality_v1",
        Kind.SIMULATOR,
        "Share of simulated messages true to the scenario.",
    ),
    Metric("response_evaluation_score", Kind.VERTEX, "Coherence of the answer.", low=1.0, high=5.0),
    Metric("safety_v1", Kind.VERTEX, "Harmlessness of the answer."),
    Metric("multi_turn_task_success_v1", Kind.VERTEX, "Goals of the conversation that were reached."),
    Metric("multi_turn_trajectory_quality_v1", Kind.VERTEX, "Quality of the way to the goal."),
    Metric("multi_turn_tool_use_quality_v1", Kind.VERTEX, "Quality of the tool calls over all turns."),
    Metric("tool_call_count_v1", Kind.INFORMATIONAL, "Tool calls a turn.", low=None, high=None),
    Metric("inference_call_count_v1", Kind.INFORMATIONAL, "Model calls a turn.", low=None, high=None),
    Metric("token_usage_v1", Kind.INFORMATIONAL, "Tokens a turn.", low=None, high=None),
    Metric("invocation_duration_v1", Kind.INFORMATIONAL, "Seconds a turn.", low=None, high=None),
)
METRICS = {metric.name: metric for metric in _TABLE}
"""ADK's own."""

STATE = Metric(STATE_MATCH, Kind.STATE, "Share of expected state keys that have their value.", default=1.0)
"""Ours: it runs by itself where a case expects a state. ADK's registry never hears of it."""

KNOWN = {**METRICS, STATE.name: STATE}
INFORMATIONAL = tuple(metric.name for metric in _TABLE if metric.kind is Kind.INFORMATIONAL)

RENAMED = {
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
"""Names found in older documents, and the name of the same metric now."""


NEEDS_VERTEX = "Cannot run: needs the vertex extra (pip install 'devui[vertex]') and a Google Cloud project."
_VERTEX_MODULES = ("pandas", "vertexai")


def missing_for(name: str) -> str:
    """Return why a metric cannot run with what is installed here, or ""."""
    metric = METRICS.get(name)
    if metric is None or metric.kind is not Kind.VERTEX:
        return ""
    return NEEDS_VERTEX if any(importlib.util.find_spec(module) is None for module in _VERTEX_MODULES) else ""


_ENDINGS = ("_avg_score", "_score", "_v1", "_v2")
_PREFIX = "devui_"


def label_of(name: str) -> str:
    """Return a metric's name as a column head: without its ending, in words."""
    name = name.removeprefix(_PREFIX)
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return name.replace("_", " ").strip()


def right_name(name: str, known: Iterable[str] = KNOWN) -> str:
    """Return the metric that an unknown name most likely means, or "" when nothing is near."""
    if name.lower() in RENAMED:
        return RENAMED[name.lower()]
    near = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    return near[0] if near else ""
