"""Checks of a run before it starts: settings that do not do what they seem to, its time and cost. Read-only."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from evals_app.analysis.comparison import count_cases
from evals_app.metrics import invocations
from evals_app.metrics.catalog import (
    ADK_METRICS,
    COMPARES_ANSWERS,
    RESPONSE_MATCH,
    RUBRIC_TYPES,
    RUBRICS,
    TRAJECTORY,
)
from evals_app.metrics.config import criterion_threshold
from evals_app.metrics.criterion_options import JUDGE, SIMULATOR, Criterion, option_value
from evals_app.metrics.metric import MetricKind, metric_label
from evals_app.metrics.model_keys import find_missing_key
from evals_app.models import EvalAttempt
from evals_app.runs.attempt_status import HAS_OUTCOME
from evals_app.runs.writes.runs import NewEvalRun
from sessions_app import prices
from sessions_app.agents.folder import configured_folder
from sessions_app.runs import job_queue
from sessions_app.store import scopes
from sessions_app.store.errors import DevUIError

Json = Mapping[str, Any]

SAMPLE = 100
"""Earlier attempts from which time and cost are estimated, the newest ones."""

HIGH_RESPONSE_MATCH = 0.99
DEFAULT_MODEL = "gemini-2.5-flash"
"""ADK's model of judges and simulated users (`JudgeModelOptions`, `LlmBackedUserSimulatorConfig`)."""


@dataclass(frozen=True)
class RunPreview:
    """Warnings about a planned run, and estimates of its time and cost.

    Attributes:
        warnings: sentences about settings that will not do what they seem to.
        attempts: number of attempts.
        seconds, cost: estimates by the medians of `sample` earlier attempts; None: unknown.
    """

    warnings: list[str]
    attempts: int
    seconds: float | None
    cost: float | None
    currency: str
    sample: int


def preview_run(planned: NewEvalRun) -> RunPreview:
    """Return what is known of a planned run."""
    contents = json.loads(planned.version.content)["eval_cases"]
    cases = [contents[index] for index, _ in planned.cases]
    attempts = len(cases) * planned.num_runs
    table = prices.current_prices()
    seconds, costs = _read_earlier_attempts(planned, table)
    is_priced = bool(costs) and None not in costs
    return RunPreview(
        [*_check_metrics(planned.config, cases), *_check_keys(planned, cases)],
        attempts,
        median(seconds) * math.ceil(attempts / planned.parallelism) if seconds else None,
        median(cost for cost in costs if cost is not None) * attempts if is_priced else None,
        table.currency,
        len(seconds),
    )


def _read_earlier_attempts(
    planned: NewEvalRun, table: prices.Prices
) -> tuple[list[float], list[float | None]]:
    """Return seconds and cost of the newest attempts of the evalset that replayed as much, at prices of now."""
    rows = EvalAttempt.objects.filter(
        HAS_OUTCOME, run__evalset=planned.version.evalset, run__policy=scopes.dumps(planned.policy)
    )
    rows = rows.exclude(run__source="import").exclude(started_at=None)
    newest = list(
        rows.only("started_at", "finished_at", "waited_seconds", "by_model", "judge").order_by("-pk")[:SAMPLE]
    )
    seconds = [attempt.active_seconds for attempt in newest]
    return (
        [value for value in seconds if value is not None],
        [_find_cost([attempt.by_model, attempt.judge], table) for attempt in newest],
    )


def _find_cost(usages: Sequence[str], table: prices.Prices) -> float | None:
    """Return the cost of what an agent and its judges used; None: unknown."""
    costs = [table.cost(usage, time.time()) for usage in map(json.loads, usages) if usage]
    return None if None in costs else sum(cost for cost in costs if cost is not None)


def _check_metrics(config: Json, cases: Sequence[Json]) -> Iterator[str]:
    """Yield which metrics apply only to some cases, and which threshold fails on paraphrases."""
    for name, criterion in (config.get("criteria") or {}).items():
        label = metric_label(name).capitalize()
        count = sum(_can_judge(name, criterion, case) for case in cases)
        if count < len(cases):
            yield f"{label}: applies to {count:,} of {count_cases(len(cases))}. {_explain_exclusion(name)}"
        if name == RESPONSE_MATCH and criterion_threshold(criterion) > HIGH_RESPONSE_MATCH:
            yield f"{label} above {HIGH_RESPONSE_MATCH} fails on paraphrases: it compares the words of an answer."


def _can_judge(name: str, criterion: Criterion, case: Json) -> bool:
    """Tell whether a case has what a metric of ADK judges."""
    turns = case.get("conversation") or []
    if name in RUBRIC_TYPES:
        rubrics = [
            *(case.get("rubrics") or []),
            *(rubric for turn in turns for rubric in turn.get("rubrics") or []),
        ]
        return bool(option_value(criterion, RUBRICS)) or any(
            rubric.get("type") == RUBRIC_TYPES[name] for rubric in rubrics
        )
    if name in COMPARES_ANSWERS:
        return any(invocations.answer_text(turn) for turn in turns)
    if name == TRAJECTORY:
        return bool(turns)
    if name in ADK_METRICS and ADK_METRICS[name].kind is MetricKind.SIMULATOR:
        return bool(case.get("conversation_scenario"))
    return True


def _explain_exclusion(name: str) -> str:
    """Return why a metric does not apply to the other cases."""
    if name in RUBRIC_TYPES:
        return f"Others have no rubric of type {RUBRIC_TYPES[name]} and stay incomplete."
    if name in COMPARES_ANSWERS:
        return "Others expect no answer."
    if name == TRAJECTORY:
        return "Others are scenarios, which expect no tool calls."
    return "Others have no simulated user."


def _check_keys(planned: NewEvalRun, cases: Sequence[Json]) -> Iterator[str]:
    """Yield which models of judges and simulated users have no key in the agent's environment, if that is known."""
    models = list(dict.fromkeys([*_judge_models(planned.config), *_simulator_models(planned.config, cases)]))
    if not models or job_queue.current_queue() is not None:
        return  # workers have an environment of their own
    variables = _read_variables(planned.version.evalset.app_name)
    for model in models:
        if variables is not None and (variable := find_missing_key(model, variables)):
            yield f"{model}: no key. Set {variable} in the agent's .env or in the environment of the server."


def _judge_models(config: Json) -> Iterator[str]:
    for name, criterion in (config.get("criteria") or {}).items():
        if name in ADK_METRICS and ADK_METRICS[name].uses_judge:
            yield option_value(criterion, JUDGE[0]) or DEFAULT_MODEL


def _simulator_models(config: Json, cases: Sequence[Json]) -> Iterator[str]:
    if any(case.get("conversation_scenario") for case in cases):
        yield (config.get(SIMULATOR) or {}).get("model") or DEFAULT_MODEL


def _read_variables(app_name: str) -> Collection[str] | None:
    """Return the names of the environment variables of an agent; None if its folder is not known."""
    folder = configured_folder()
    try:
        return folder.environment_names(app_name) if folder else None
    except DevUIError:
        return None
