"""Custom metrics, as `test_config.json` names them."""

from __future__ import annotations

import asyncio
import sys

from google.adk.evaluation.evaluator import EvalStatus, EvaluationResult, PerInvocationResult


def says_sunny(eval_metric, actual, expected, scenario):
    results = [
        PerInvocationResult(
            actual_invocation=invocation,
            score=float("sunny" in invocation.final_response.parts[0].text),
            eval_status=EvalStatus.PASSED
            if "sunny" in invocation.final_response.parts[0].text
            else EvalStatus.FAILED,
        )
        for invocation in actual
    ]
    score = sum(result.score for result in results) / len(results)
    status = EvalStatus.PASSED if score >= eval_metric.criterion.threshold else EvalStatus.FAILED
    return EvaluationResult(overall_score=score, overall_eval_status=status, per_invocation_results=results)


async def raises(eval_metric, actual, expected, scenario):
    return 1 / 0


def exits(eval_metric, actual, expected, scenario):
    sys.exit(3)


async def hangs(eval_metric, actual, expected, scenario):
    await asyncio.sleep(3600)


def returns_a_number(eval_metric, actual, expected, scenario):
    return 1.0


def divides_by_nothing(eval_metric, actual, expected, scenario):
    return EvaluationResult(overall_score=float("nan"), overall_eval_status=EvalStatus.PASSED)


def passes_without_a_score(eval_metric, actual, expected, scenario):
    return EvaluationResult(overall_eval_status=EvalStatus.PASSED)


def abstains(eval_metric, actual, expected, scenario):
    return EvaluationResult(overall_score=0.5, overall_eval_status=EvalStatus.NOT_EVALUATED)


def abstains_on_the_last_turn(eval_metric, actual, expected, scenario):
    statuses = [*[EvalStatus.PASSED] * (len(actual) - 1), EvalStatus.NOT_EVALUATED]
    turns = [
        PerInvocationResult(actual_invocation=invocation, score=1.0, eval_status=status)
        for invocation, status in zip(actual, statuses, strict=True)
    ]
    return EvaluationResult(
        overall_score=1.0, overall_eval_status=EvalStatus.PASSED, per_invocation_results=turns
    )
