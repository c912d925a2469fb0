"""Matchers of arguments in the tool calls that a case expects, resolved for ADK, which compares arguments with `==`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from google.adk.evaluation.eval_case import EvalCase, IntermediateData, Invocation, get_all_tool_calls
from google.adk.evaluation.eval_metrics import EvalMetric, ToolTrajectoryCriterion
from google.genai.types import FunctionCall

from evals_app.files.argument_matchers import has_matchers
from evals_app.metrics.alignment import Fit, MatchRules, align
from evals_app.metrics.catalog import TRAJECTORY


def match_arguments(metric: EvalMetric, case: EvalCase, actual: Sequence[Invocation]) -> EvalCase:
    """Return a case whose expected calls have the arguments of the actual calls that fit their matchers.

    ADK compares arguments with `==` (`trajectory_evaluator`). Other metrics than that of tool calls compare none.
    """
    if metric.metric_name != TRAJECTORY or metric.custom_function_path or not case.conversation:
        return case
    rules = _read_match_rules(metric)
    pairs = zip_longest(case.conversation, actual[: len(case.conversation)])
    turns = [_match_turn(expected, turn, rules) if turn else expected for expected, turn in pairs]
    return case.model_copy(update={"conversation": turns})


def _read_match_rules(metric: EvalMetric) -> MatchRules:
    """Return the rules by which ADK's `TrajectoryEvaluator` compares calls."""
    if metric.criterion is None:
        return MatchRules()
    criterion = ToolTrajectoryCriterion.model_validate(metric.criterion.model_dump())
    return MatchRules(criterion.match_type.name, criterion.ignore_args)


def _match_turn(expected: Invocation, actual: Invocation, rules: MatchRules) -> Invocation:
    """Return an expected turn in which calls have the arguments of the actual calls that fit their matchers."""
    expected_calls = get_all_tool_calls(expected.intermediate_data)
    if not any(has_matchers(call.args) for call in expected_calls):
        return expected
    actual_calls = get_all_tool_calls(actual.intermediate_data)
    pairs = align(list(map(_call_fields, expected_calls)), list(map(_call_fields, actual_calls)), rules)
    matched_calls = []
    for pair in pairs:
        if pair.expected is not None:
            call = pair.actual if pair.actual is not None and pair.fit is Fit.SAME else pair.expected
            matched_calls.append(FunctionCall(name=pair.name, args=call["args"]))
    return expected.model_copy(update={"intermediate_data": IntermediateData(tool_uses=matched_calls)})


def _call_fields(call: FunctionCall) -> dict[str, Any]:
    return {"name": call.name or "", "args": call.args or {}}
