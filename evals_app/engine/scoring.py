"""One attempt scored by every metric of its run, each by ADK's own evaluator, each alone."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

from google.adk.evaluation.eval_case import EvalCase, Invocation
from google.adk.evaluation.eval_metrics import EvalMetric, EvalStatus
from google.adk.evaluation.eval_rubrics import Rubric
from google.adk.evaluation.evaluator import EvaluationResult, Evaluator, PerInvocationResult
from google.genai.types import Content

from evals_app.engine.metrics import CannotRun, evaluator_of
from evals_app.engine.overhear import overheard
from evals_app.models import EvalAttempt, MetricResult
from evals_app.writes import Score

STATUS = {
    EvalStatus.PASSED: MetricResult.Status.PASSED,
    EvalStatus.FAILED: MetricResult.Status.FAILED,
    EvalStatus.NOT_EVALUATED: MetricResult.Status.NOT_EVALUATED,
    EvalStatus.INFORMATIONAL: MetricResult.Status.INFORMATIONAL,
}
WHOLE_CONVERSATION = frozenset({"rubric_based_multi_turn_trajectory_quality_v1"})
"""Metrics that judge once, at the last turn, and leave the turns before it unjudged on purpose."""

ANSWERS_KEPT = 20
ANSWER_LENGTH = 2000
REASON_LENGTH = 2000
NO_VERDICT = "No verdict: the judge gave no answer that can be read."


async def score_attempt(
    metrics: Sequence[EvalMetric], case: EvalCase, actual: list[Invocation]
) -> list[Score]:
    """Return the scores of an attempt: for each metric the overall one, then one per turn.

    A metric that cannot run, or raises, has one overall score that says why; the others are not touched.
    """
    merge_rubrics(case, actual)
    scores: list[Score] = []
    for position, metric in enumerate(metrics):
        scores += await _score(position, metric, case, actual)
    return scores


def verdict(scores: Iterable[Score]) -> EvalAttempt.Status:
    """Return what an attempt's overall scores amount to.

    Unlike in ADK (`local_eval_service._generate_final_eval_status`) a metric that could not run keeps the
    attempt from passing.
    """
    statuses = {score.status for score in scores if score.invocation is None}
    if MetricResult.Status.FAILED in statuses:
        return EvalAttempt.Status.FAILED
    if MetricResult.Status.NOT_EVALUATED in statuses or MetricResult.Status.PASSED not in statuses:
        return EvalAttempt.Status.INCOMPLETE
    return EvalAttempt.Status.PASSED


def merge_rubrics(case: EvalCase, actual: Sequence[Invocation]) -> None:
    """Give each actual turn the rubrics of its case and of its expected turn (as ADK's `local_eval_service`).

    Raises:
        ValueError: two of them have one id.
    """
    for index, invocation in enumerate(actual):
        expected = case.conversation[index] if case.conversation and index < len(case.conversation) else None
        rubrics = [*(case.rubrics or []), *((expected.rubrics if expected else None) or [])]
        ids = [rubric.rubric_id for rubric in rubrics]
        for rubric_id in ids:
            if ids.count(rubric_id) > 1:
                raise ValueError(f"Turn {index + 1} has two rubrics of the id {rubric_id!r}: rename one.")
        if rubrics:
            invocation.rubrics = rubrics


async def _score(position: int, metric: EvalMetric, case: EvalCase, actual: list[Invocation]) -> list[Score]:
    answers: list[str] = []
    with overheard() as warnings:
        try:
            evaluator = evaluator_of(metric)
            _listen_to_judge(evaluator, answers)
            result: object = evaluator.evaluate_invocations(
                actual_invocations=actual,
                expected_invocations=case.conversation,
                conversation_scenario=case.conversation_scenario,
            )
            if inspect.isawaitable(result):
                result = await result
        except CannotRun as error:
            return [_unscored(position, metric, str(error))]
        except Exception as error:
            return [_unscored(position, metric, _because(error, metric))]
    if not isinstance(result, EvaluationResult):
        kind = type(result).__name__
        return [
            _unscored(position, metric, f"The metric's function returned {kind}, not an EvaluationResult.")
        ]
    return _scores(position, metric, result, case, actual, warnings, answers)


def _scores(
    position: int,
    metric: EvalMetric,
    result: EvaluationResult,
    case: EvalCase,
    actual: Sequence[Invocation],
    warnings: Sequence[str],
    answers: Sequence[str],
) -> list[Score]:
    texts = _rubric_texts(metric, actual)
    turns = result.per_invocation_results
    aligned = len(turns) == len(actual)
    status, reason = _overall(metric, result, case, actual, warnings)
    if turns and not aligned and not reason:
        reason = (
            f"The metric gave {len(turns)} results for {len(actual)} turns; only the overall one is shown."
        )
    details = _details(result.overall_rubric_scores, texts)
    for part in (result.overall_token_usage_details, result.overall_duration_details):
        if part is not None:
            details.update(part.model_dump(exclude_none=True))
    if answers:
        details["judge_answers"] = [answer[:ANSWER_LENGTH] for answer in answers[:ANSWERS_KEPT]]
    overall = Score(
        position=position,
        metric=metric.metric_name,
        invocation=None,
        score=result.overall_score,
        threshold=metric.threshold,
        status=status,
        reason=reason,
        details=details,
    )
    per_turn = [_turn(position, metric, index, turn, texts) for index, turn in enumerate(turns)]
    return [overall, *(per_turn if aligned else [])]


def _overall(
    metric: EvalMetric,
    result: EvaluationResult,
    case: EvalCase,
    actual: Sequence[Invocation],
    warnings: Sequence[str],
) -> tuple[str, str]:
    """Return status and reason. A pass that leaves out turns the judge could not judge is none."""
    status = STATUS[result.overall_eval_status]
    why = " ".join(dict.fromkeys(warnings))[:REASON_LENGTH]
    if status == MetricResult.Status.NOT_EVALUATED:
        return status, why or NO_VERDICT
    if status == MetricResult.Status.PASSED and (missing := _unjudged(metric, result, actual)):
        turns = ", ".join(str(turn + 1) for turn in missing)
        return MetricResult.Status.NOT_EVALUATED, f"Turn {turns} could not be judged. {why or NO_VERDICT}"
    return status, _nothing_to_match(metric, case)


def _nothing_to_match(metric: EvalMetric, case: EvalCase) -> str:
    """Return what to know of a response match with nothing: ADK scores it 0."""
    if metric.metric_name != "response_match_score":
        return ""
    lacking = [
        str(index + 1) for index, turn in enumerate(case.conversation or []) if not _says(turn.final_response)
    ]
    return f"No answer is expected in turn {', '.join(lacking)}, which scores 0." if lacking else ""


def _unjudged(metric: EvalMetric, result: EvaluationResult, actual: Sequence[Invocation]) -> list[int]:
    """Return the turns that should have a verdict and have none; one without an answer has nothing to judge."""
    if metric.metric_name in WHOLE_CONVERSATION:
        return []
    return [
        index
        for index, (turn, invocation) in enumerate(zip(result.per_invocation_results, actual, strict=False))
        if turn.eval_status == EvalStatus.NOT_EVALUATED and _says(invocation.final_response)
    ]


def _says(content: Content | None) -> bool:
    return any(part.text for part in (content.parts if content else None) or [])


def _turn(
    position: int, metric: EvalMetric, index: int, turn: PerInvocationResult, texts: dict[str, str]
) -> Score:
    details = _details(turn.rubric_scores, texts)
    for part in (turn.token_usage_details, turn.duration_details):
        if part is not None:
            details.update(part.model_dump(exclude_none=True))
    return Score(
        position=position,
        metric=metric.metric_name,
        invocation=index,
        score=turn.score,
        threshold=metric.threshold,
        status=STATUS[turn.eval_status],
        details=details,
    )


def _unscored(position: int, metric: EvalMetric, reason: str) -> Score:
    return Score(
        position=position,
        metric=metric.metric_name,
        invocation=None,
        score=None,
        threshold=metric.threshold,
        status=MetricResult.Status.NOT_EVALUATED,
        reason=reason[:REASON_LENGTH],
    )


_NOTHING_EXPECTED = "The case has no expected conversation to compare with."
_BECAUSE = {
    "expected_invocations is needed by this metric.": _NOTHING_EXPECTED,
    "expected_invocations is required for this metric.": _NOTHING_EXPECTED,
}


def _because(error: Exception, metric: EvalMetric) -> str:
    text = str(error)
    if text == "Rubrics are required.":
        return (
            "The metric has no rubrics: give them in its criterion, in the case or in a turn"
            f" (those of another type than {metric.metric_name} reads are not counted)."
        )
    return _BECAUSE.get(text) or f"{type(error).__name__}: {text}"


def _listen_to_judge(evaluator: Evaluator, answers: list[str]) -> None:
    """Keep what the judge says, where the evaluator turns answers into scores by a method of its own."""
    convert = getattr(evaluator, "convert_auto_rater_response_to_score", None)
    if convert is None:
        return

    def listening(response: Any) -> Any:
        parts = (response.content.parts or []) if response.content else []
        answers.append("".join(part.text or "" for part in parts) or response.error_message or "")
        return convert(response)

    evaluator.convert_auto_rater_response_to_score = listening  # type: ignore[attr-defined]


def _rubric_texts(metric: EvalMetric, actual: Sequence[Invocation]) -> dict[str, str]:
    """Return the wording of every rubric that may be asked about, by id."""
    texts: dict[str, str] = {}
    given = (metric.criterion.model_extra or {}).get("rubrics") if metric.criterion else None
    rubrics = [Rubric.model_validate(rubric) for rubric in given or []]
    for rubric in [*rubrics, *(one for invocation in actual for one in invocation.rubrics or [])]:
        texts[rubric.rubric_id] = rubric.rubric_content.text_property or ""
    return texts


def _details(rubric_scores: Sequence[Any] | None, texts: dict[str, str]) -> dict[str, Any]:
    if not rubric_scores:
        return {}
    return {
        "rubrics": [
            {"text": texts.get(score.rubric_id, ""), **score.model_dump(exclude_none=True)}
            for score in rubric_scores
        ]
    }
