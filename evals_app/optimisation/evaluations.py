"""Scores of a candidate from the attempts of its run, and what happened in them, as ADK's optimisers read it."""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import Any

from evals_app.metrics.invocations import Json, answer_text, tool_calls, user_text
from evals_app.models import EvalAttempt, EvalRun, EvalSetVersion, MetricResult
from evals_app.runs.attempt_status import HAS_OUTCOME
from sessions_app.store.short_texts import truncate

MAX_TEXT = 4_000
"""Most characters of a message, and of the arguments of a tool call, that the optimiser's model reads."""


def read_scores(run: EvalRun) -> dict[str, float]:
    """Return the score of each case of a run that has an outcome: 1 if it passed, else 0, as in `LocalEvalSampler`."""
    attempts = run.attempts.filter(HAS_OUTCOME).order_by("case_index")
    return {attempt.case_id: float(attempt.status == EvalAttempt.Status.PASSED) for attempt in attempts}


def read_evaluation_data(run: EvalRun) -> dict[str, Any]:
    """Return what happened in the attempts of a run by case, with the keys of ADK's `LocalEvalSampler`."""
    attempts = run.attempts.prefetch_related("results").order_by("case_index")
    return {attempt.case_id: _attempt_data(attempt, run.version) for attempt in attempts}


def _attempt_data(attempt: EvalAttempt, version: EvalSetVersion) -> dict[str, Any]:
    case = json.loads(version.content)["eval_cases"][attempt.case_index]
    results = list(attempt.results.all())
    turns = zip_longest(json.loads(attempt.actual), case.get("conversation") or [])
    data: dict[str, Any] = {
        "invocations": [
            _turn_data(actual, expected, [result for result in results if result.invocation == turn])
            for turn, (actual, expected) in enumerate(turns)
        ]
    }
    if attempt.error:
        data["error"] = truncate(attempt.error, MAX_TEXT)
    if scenario := case.get("conversation_scenario"):
        data["conversation_scenario"] = scenario
    return data


def _turn_data(actual: Json | None, expected: Json | None, results: list[MetricResult]) -> dict[str, Any]:
    data: dict[str, Any] = {
        "eval_metric_results": [
            {
                "metric_name": result.metric,
                "score": None if result.score is None else round(result.score, 2),
                "eval_status": result.status.upper(),
            }
            for result in results
        ]
    }
    if actual:
        data["actual_invocation"] = _invocation_data(actual)
    if expected:
        data["expected_invocation"] = _invocation_data(expected)
    return data


def _invocation_data(invocation: Json) -> dict[str, Any]:
    calls = [
        {"name": call["name"], "args": truncate(json.dumps(call["args"]), MAX_TEXT)}
        for call in tool_calls(invocation)
    ]
    return {
        "user_prompt": truncate(user_text(invocation), MAX_TEXT),
        "agent_response": truncate(answer_text(invocation), MAX_TEXT),
        "tool_calls": calls,
    }
