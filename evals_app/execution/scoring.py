"""Scoring of one attempt by every metric of its run, each by its own evaluator and independent of the others."""

from __future__ import annotations

import inspect
import math
import unicodedata
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from google.adk.evaluation.eval_case import EvalCase, IntermediateData, Invocation, get_all_tool_calls
from google.adk.evaluation.eval_metrics import EvalMetric, EvalStatus
from google.adk.evaluation.eval_rubrics import Rubric
from google.adk.evaluation.evaluator import EvaluationResult, PerInvocationResult
from google.genai.types import Content, FunctionCall, Part
from pydantic import BaseModel

from evals_app.execution.evaluators import MetricUnavailable, build_evaluator
from evals_app.execution.judge_logs import collect_warnings
from evals_app.execution.judge_models import ModelLog, Tokens, sum_tokens
from evals_app.execution.judge_verdicts import excerpt
from evals_app.execution.matched_arguments import match_arguments
from evals_app.execution.model_retry import Retries
from evals_app.metrics import number_differences
from evals_app.metrics.catalog import (
    ADK_METRICS,
    COMPARES_ANSWERS,
    INCLUDE_NESTED,
    RESPONSE_MATCH,
    own_metrics,
)
from evals_app.metrics.criterion_options import option_value
from evals_app.metrics.invocations import NESTED_CALLS, NestedCalls
from evals_app.metrics.metric import MetricKind
from evals_app.metrics.own import BadOutcome, MetricInput, MetricOutcome, OwnMetric, ReachedStates
from evals_app.models import EvalAttempt, MetricResult
from evals_app.runs.writes.outcomes import MetricScore
from sessions_app.delivery.failure import Failure
from sessions_app.store.events.call_pairing import name_occurrences
from sessions_app.store.short_texts import join_names, truncate

WHOLE_CONVERSATION = frozenset({"rubric_based_multi_turn_trajectory_quality_v1"})
"""Metrics that judge only the last turn and leave earlier turns without a verdict on purpose."""

READS_THOUGHTS = COMPARES_ANSWERS | {"hallucinations_v1", "rubric_based_final_response_quality_v1"}
"""Metrics of ADK that read the thoughts in an answer like its other text."""

REASON_LENGTH = 2000
NO_VERDICT = "No verdict: the judge gave no answer that can be read."
NO_TURNS = "The case has no turns: there is nothing to judge."
NO_SCORE = "The metric says that it passed, and gives no score."


@dataclass
class AttemptScores:
    """The scores of an attempt, and the tokens of its judges by model.

    Attributes:
        retries: retries of the judges' calls; None: none.
        unavailable: why a judge was given up; None: none was.
    """

    retries: Retries | None = None
    unavailable: Failure | None = None
    scores: list[MetricScore] = field(default_factory=list)
    judges: dict[str, Tokens] = field(default_factory=dict)


async def score_attempt(
    result: AttemptScores,
    metrics: Sequence[EvalMetric],
    case: EvalCase,
    actual: list[Invocation],
    read_states: Callable[[], Awaitable[ReachedStates]],
    read_nested: Callable[[], Awaitable[Sequence[NestedCalls]]],
    before_metric: Callable[[str], Awaitable[None]] | None = None,
) -> None:
    """Score an attempt: for each metric the overall score, then one per turn.

    A metric that cannot run, or raises, has one overall score with the reason; the others are not affected.

    Args:
        result: receives the scores.
        read_states: returns the states that the attempt reached; called only for metrics of DevUI or a package.
        read_nested: returns the nested calls of each turn; called only for metrics that count them.
        before_metric: called before each metric that calls a model or a function that is not DevUI's.
    """
    merge_rubrics(case, actual)
    states: ReachedStates | None = None
    for position, metric in enumerate(metrics):
        if before_metric and _runs_foreign_code(metric):
            await before_metric(metric.metric_name)
        if own_metric := _own_metric(metric):
            is_only = all(other is metric or other.threshold is None for other in metrics)
            states = states or await read_states()
            data = _metric_input(metric, own_metric, case, actual, states)
            result.scores += await _run_own_metric(position, metric, own_metric, data, is_only)
            continue
        log = ModelLog(result.retries)
        nested = await read_nested() if _counts_nested(metric) else None
        judged_turns = actual if nested is None else _with_nested(actual, nested)
        judged_case = match_arguments(metric, case, judged_turns)
        scores = await _run_evaluator(position, metric, judged_case, judged_turns, log)
        if nested is not None:
            overall, *of_turns = scores
            scores = [replace(overall, details={**overall.details, NESTED_CALLS: nested}), *of_turns]
        if log.unavailable:  # what it made of the answers that it had is no verdict
            scores = [_not_evaluated(position, metric, log.unavailable.message)]
            result.unavailable = result.unavailable or log.unavailable
        result.scores += scores
        result.judges = sum_tokens(result.judges, log.by_model)


def _counts_nested(metric: EvalMetric) -> bool:
    """Tell whether a metric counts the tool calls of nested agents."""
    known = ADK_METRICS.get(metric.metric_name)
    if metric.custom_function_path or known is None or INCLUDE_NESTED not in known.options:
        return False
    return bool(option_value(metric.criterion.model_dump() if metric.criterion else None, INCLUDE_NESTED))


def _with_nested(actual: Sequence[Invocation], nested: Sequence[NestedCalls]) -> list[Invocation]:
    """Return turns whose tool calls include those of nested agents, each after the call that ran its agent."""
    turns: list[Invocation] = []
    for invocation, calls_by_parent in zip(actual, nested, strict=True):
        calls: list[FunctionCall] = []
        direct_calls = get_all_tool_calls(invocation.intermediate_data)
        names = name_occurrences(call.id or "" for call in direct_calls)
        for call, name in zip(direct_calls, names, strict=True):
            calls.append(call)
            calls += [
                FunctionCall(id=inner["id"], name=inner["name"], args=inner["args"])
                for inner in calls_by_parent.get(name, ())
            ]
        turns.append(invocation.model_copy(update={"intermediate_data": IntermediateData(tool_uses=calls)}))
    return turns


def _runs_foreign_code(metric: EvalMetric) -> bool:
    """Tell whether a metric calls a model, or a function that is not DevUI's and may end the process."""
    if own_metric := _own_metric(metric):
        return own_metric.is_foreign
    adk_metric = ADK_METRICS.get(metric.metric_name)
    if metric.custom_function_path or adk_metric is None:
        return True
    return adk_metric.uses_judge or adk_metric.kind is MetricKind.VERTEX


def verdict(scores: Iterable[MetricScore]) -> EvalAttempt.Status:
    """Return the status of an attempt by its overall scores.

    Unlike in ADK (`local_eval_service._generate_final_eval_status`) an attempt with a metric that could not run does
    not pass.
    """
    statuses = {score.status for score in scores if score.invocation is None}
    if MetricResult.Status.FAILED in statuses:
        return EvalAttempt.Status.FAILED
    if MetricResult.Status.NOT_EVALUATED in statuses or MetricResult.Status.PASSED not in statuses:
        return EvalAttempt.Status.INCOMPLETE
    return EvalAttempt.Status.PASSED


def merge_rubrics(case: EvalCase, actual: Sequence[Invocation]) -> None:
    """Give each actual turn the rubrics of its case and of its expected turn (as ADK's `local_eval_service`)."""
    for index, invocation in enumerate(actual):
        expected = case.conversation[index] if case.conversation and index < len(case.conversation) else None
        rubrics = [*(case.rubrics or []), *((expected.rubrics if expected else None) or [])]
        if rubrics:
            invocation.rubrics = rubrics


async def _run_own_metric(
    position: int, metric: EvalMetric, own_metric: OwnMetric, data: MetricInput, is_only: bool
) -> list[MetricScore]:
    """Return the scores of one of DevUI's own metrics, or of an installed package's.

    Args:
        is_only: no other metric judges the attempt, so a case that the metric omits needs a reason.
    """
    try:
        if own_metric.applies is not None and not own_metric.applies(data.case):
            reason = f"{own_metric.otherwise}, and nothing else is judged."
            return [_not_evaluated(position, metric, reason)] if is_only else []
        returned = own_metric.score(data)
        if inspect.isawaitable(returned):
            returned = await returned
        outcome = own_metric.check_outcome(returned, turns=max(len(data.expected), len(data.actual)))
    except BadOutcome as error:
        return [_not_evaluated(position, metric, f"The metric of {own_metric.module} {error}")]
    except (Exception, SystemExit) as error:
        problem = f"The metric of {own_metric.module} raised {type(error).__name__}: {error}"
        return [_not_evaluated(position, metric, problem)]
    return [
        _own_score(position, metric, None, outcome),
        *(_own_score(position, metric, turn, inner) for turn, inner in outcome.turns.items()),
    ]


def _own_score(position: int, metric: EvalMetric, turn: int | None, outcome: MetricOutcome) -> MetricScore:
    passed = outcome.score >= (metric.threshold or 0.0)
    status = MetricResult.Status.PASSED if passed else MetricResult.Status.FAILED
    reason, details = truncate(outcome.reason, REASON_LENGTH), dict(outcome.details)
    return MetricScore(
        position, metric.metric_name, turn, outcome.score, metric.threshold, status, reason, details
    )


def _own_metric(metric: EvalMetric) -> OwnMetric | None:
    """Return the metric of DevUI or of an installed package; None: another one, or a custom one of this name."""
    return None if metric.custom_function_path else own_metrics().get(metric.metric_name)


def _metric_input(
    metric: EvalMetric,
    own_metric: OwnMetric,
    case: EvalCase,
    actual: Sequence[Invocation],
    states: ReachedStates,
) -> MetricInput:
    criterion = metric.criterion.model_dump() if metric.criterion else {}
    return MetricInput(
        case=case.model_dump(mode="json"),
        expected=[invocation.model_dump(mode="json") for invocation in case.conversation or []],
        actual=[invocation.model_dump(mode="json") for invocation in actual],
        states=states,
        options={option.name: option_value(criterion, option) for option in own_metric.options},
    )


async def _run_evaluator(
    position: int, metric: EvalMetric, case: EvalCase, actual: list[Invocation], log: ModelLog
) -> list[MetricScore]:
    with collect_warnings() as warnings:
        try:
            evaluator = build_evaluator(metric)
            log.listen(evaluator)
            result: object = evaluator.evaluate_invocations(
                actual_invocations=actual,
                expected_invocations=case.conversation,
                conversation_scenario=case.conversation_scenario,
            )
            if inspect.isawaitable(result):
                result = await result
        except MetricUnavailable as error:
            return [_not_evaluated(position, metric, str(error))]
        except (Exception, SystemExit) as error:  # a function of the user's own may exit, and is no agent
            return [_not_evaluated(position, metric, _describe_error(error, metric))]
    if not isinstance(result, EvaluationResult):
        problem = f"{metric.custom_function_path} returned {type(result).__name__}, not an EvaluationResult."
        return [_not_evaluated(position, metric, problem)]
    if result.overall_score is not None and not math.isfinite(result.overall_score):
        problem = f"The metric gave {result.overall_score}, which is no score."
        return [_not_evaluated(position, metric, problem)]
    return _convert_result(position, metric, result, case, actual, warnings, log)


def _convert_result(
    position: int,
    metric: EvalMetric,
    result: EvaluationResult,
    case: EvalCase,
    actual: Sequence[Invocation],
    warnings: Sequence[str],
    log: ModelLog,
) -> list[MetricScore]:
    texts = _rubric_texts(metric, actual)
    turns = result.per_invocation_results
    aligned = len(turns) == len(actual)
    notes = truncate(" ".join(dict.fromkeys(warnings)), REASON_LENGTH)
    status, reason = _overall_verdict(metric, result, case, actual, notes, log)
    if turns and not aligned and not reason:
        reason = (
            f"The metric gave {len(turns)} results for {len(actual)} turns; only the overall one is shown."
        )
    details = _rubric_details(
        result.overall_rubric_scores,
        texts,
        result.overall_token_usage_details,
        result.overall_duration_details,
    )
    if log.answers:
        details["judge_answers"] = log.excerpts
    name = metric.metric_name
    score = _known_score(status, result.overall_eval_status, result.overall_score)
    overall = MetricScore(position, name, None, score, metric.threshold, status, reason, details)
    if not aligned:
        return [overall]
    return [overall, *(_turn_score(position, metric, index, turn, texts) for index, turn in enumerate(turns))]


def _overall_verdict(
    metric: EvalMetric,
    result: EvaluationResult,
    case: EvalCase,
    actual: Sequence[Invocation],
    notes: str,
    log: ModelLog,
) -> tuple[str, str]:
    """Return status and reason: not evaluated if verdicts that the judge did not give could change the result."""
    status = MetricResult.Status[result.overall_eval_status.name]
    if status == MetricResult.Status.PASSED and result.overall_score is None:
        return MetricResult.Status.NOT_EVALUATED, NO_SCORE
    if status == MetricResult.Status.INFORMATIONAL:
        return status, ""
    unjudged = _turns_without_verdict(metric, result, actual)
    missing = " ".join(filter(None, (_describe_missing(turn) for turn in unjudged.values())))
    why = " ".join(filter(None, (missing, notes))) or log.unreadable_reason or _no_verdict(metric)
    if status == MetricResult.Status.NOT_EVALUATED and not missing:
        return status, why if actual else NO_TURNS
    if unjudged:
        numbers = ", ".join(str(turn + 1) for turn in unjudged)
        reason = truncate(f"Turn {numbers} could not be judged. {why}", REASON_LENGTH)
        judged = [turn for turn in result.per_invocation_results if not _is_omitted(metric, turn)]
        return _final_status(metric, status, judged), reason
    return status, _explain_score(metric, case, actual, has_passed=status == MetricResult.Status.PASSED)


def _no_verdict(metric: EvalMetric) -> str:
    known = ADK_METRICS.get(metric.metric_name)
    if known and not metric.custom_function_path and _runs_foreign_code(metric):
        return NO_VERDICT
    return f"{metric.custom_function_path or 'The metric'} gave no verdict."


def _final_status(metric: EvalMetric, status: str, turns: Sequence[PerInvocationResult]) -> str:
    """Return the status of turns of which some verdicts are missing.

    A failure stands if the missing verdicts could not change it. A user's own function decides that itself.
    """
    if status != MetricResult.Status.FAILED:
        return MetricResult.Status.NOT_EVALUATED
    known = ADK_METRICS.get(metric.metric_name)
    if metric.custom_function_path or known is None or known.high is None:
        return status
    verdicts = [verdict for turn in turns for verdict in _list_verdicts(turn)]
    best = sum(known.high if verdict is None else verdict for verdict in verdicts) / len(verdicts)
    return MetricResult.Status.NOT_EVALUATED if best >= (metric.threshold or 0.0) else status


def _list_verdicts(turn: PerInvocationResult) -> list[float | None]:
    """Return the verdicts of a turn, on each rubric or sentence or on the whole; None: the judge gave none."""
    return [rubric.score for rubric in turn.rubric_scores or ()] or [turn.score]


def _describe_missing(turn: PerInvocationResult) -> str:
    """Return on which rubrics or sentences of a turn the judge gave no verdict, and what it said instead."""
    by_rationale: dict[str, list[str]] = defaultdict(list)
    for rubric in turn.rubric_scores or ():
        if rubric.score is None:
            by_rationale[rubric.rationale or ""].append(f"“{excerpt(rubric.rubric_id)}”")
    return " ".join(
        f"No verdict on {join_names(names)}. {rationale}".strip() for rationale, names in by_rationale.items()
    )


def _known_score(status: str, adk_status: EvalStatus, score: float | None) -> float | None:
    """Return a score; None if it omits missing verdicts."""
    return score if status == MetricResult.Status[adk_status.name] else None


def _explain_score(
    metric: EvalMetric, case: EvalCase, actual: Sequence[Invocation], *, has_passed: bool
) -> str:
    """Return notes on answers that a metric of ADK reads in an unexpected way, or passes with other numbers."""
    if metric.custom_function_path:
        return ""
    expected, given = ([turn.final_response for turn in turns] for turns in (case.conversation or [], actual))
    name = metric.metric_name
    notes: list[str] = []
    if has_passed and name in COMPARES_ANSWERS:
        pairs = zip(map(_spoken_text, expected), map(_spoken_text, given), strict=False)
        notes += filter(None, [truncate(number_differences.describe_differences(pairs), REASON_LENGTH)])
    if name in READS_THOUGHTS:
        answers = [*given, *expected] if name in COMPARES_ANSWERS else given
        if any(part.thought and part.text for answer in answers for part in _list_parts(answer)):
            notes.append("Thoughts count as part of an answer.")
    if name == RESPONSE_MATCH:
        if turns := _list_turns(expected, lambda answer: not _content_text(answer)):
            notes.append(f"No answer is expected in turn {turns}, which scores 0.")
        if turns := _list_turns(expected, _has_only_signs):
            notes.append(f"The expected answer in turn {turns} has no letter or digit, which scores 0.")
        elif turns := _list_turns(given, _has_only_signs):
            notes.append(f"The answer in turn {turns} has no letter or digit, which scores 0.")
    return " ".join(notes)


def _list_turns(answers: Sequence[Content | None], applies: Callable[[Content | None], bool]) -> str:
    """Return the numbers of the turns to whose answer something applies."""
    return ", ".join(str(number) for number, answer in enumerate(answers, 1) if applies(answer))


def _has_only_signs(content: Content | None) -> bool:
    """Tell whether a text has nothing that ROUGE compares (`final_response_match_v1._is_word_char`)."""
    text = unicodedata.normalize("NFKC", _content_text(content))
    return bool(text) and not any(
        sign.isalnum() or unicodedata.category(sign).startswith("M") for sign in text
    )


def _turns_without_verdict(
    metric: EvalMetric, result: EvaluationResult, actual: Sequence[Invocation]
) -> dict[int, PerInvocationResult]:
    """Return the turns that lack verdicts by their place; a turn without an answer needs none."""
    return {
        index: turn
        for index, (turn, invocation) in enumerate(zip(result.per_invocation_results, actual, strict=False))
        if _lacks_verdict(turn)
        or (
            turn.eval_status == EvalStatus.NOT_EVALUATED
            and not _is_omitted(metric, turn)
            and _has_text(invocation.final_response)
        )
    }


def _lacks_verdict(turn: PerInvocationResult) -> bool:
    """Tell whether a turn has a rubric or sentence without a verdict."""
    return any(rubric.score is None for rubric in turn.rubric_scores or ())


def _is_omitted(metric: EvalMetric, turn: PerInvocationResult) -> bool:
    """Tell whether a metric of whole conversations judges a turn with a later one."""
    return metric.metric_name in WHOLE_CONVERSATION and not turn.rubric_scores


def _has_text(content: Content | None) -> bool:
    return bool(_content_text(content))


def _content_text(content: Content | None) -> str:
    return "".join(part.text or "" for part in _list_parts(content))


def _spoken_text(content: Content | None) -> str:
    return "\n".join(part.text for part in _list_parts(content) if part.text and not part.thought)


def _list_parts(content: Content | None) -> Sequence[Part]:
    return (content.parts if content else None) or ()


def _turn_score(
    position: int, metric: EvalMetric, index: int, turn: PerInvocationResult, texts: dict[str, str]
) -> MetricScore:
    details = _rubric_details(turn.rubric_scores, texts, turn.token_usage_details, turn.duration_details)
    status: str = MetricResult.Status[turn.eval_status.name]
    if _lacks_verdict(turn):
        status = _final_status(metric, status, [turn])
    score = _known_score(status, turn.eval_status, turn.score)
    return MetricScore(position, metric.metric_name, index, score, metric.threshold, status, details=details)


def _not_evaluated(position: int, metric: EvalMetric, reason: str) -> MetricScore:
    status = MetricResult.Status.NOT_EVALUATED
    return MetricScore(
        position, metric.metric_name, None, None, metric.threshold, status, truncate(reason, REASON_LENGTH)
    )


_NOTHING_EXPECTED = "The case has no expected conversation to compare with."
_PLAIN_ERRORS = {
    "expected_invocations is needed by this metric.": _NOTHING_EXPECTED,
    "expected_invocations is required for this metric.": _NOTHING_EXPECTED,
    "conversation_scenario is needed by this metric.": (
        "The case is a fixed conversation: this metric judges the simulated user of a scenario."
    ),
}


def _describe_error(error: Exception | SystemExit, metric: EvalMetric) -> str:
    text = str(error)
    if text == "Rubrics are required.":
        return (
            "The metric has no rubrics: give them in its criterion, in the case or in a turn"
            f" (those of another type than {metric.metric_name} reads are not counted)."
        )
    description = _PLAIN_ERRORS.get(text) or f"{type(error).__name__}: {text}"
    return (
        f"{metric.custom_function_path} raised {description}" if metric.custom_function_path else description
    )


def _rubric_texts(metric: EvalMetric, actual: Sequence[Invocation]) -> dict[str, str]:
    """Return the text of every rubric by its id."""
    criterion_rubrics = (metric.criterion.model_extra or {}).get("rubrics") if metric.criterion else None
    rubrics = [Rubric.model_validate(rubric) for rubric in criterion_rubrics or []]
    rubrics += [rubric for invocation in actual for rubric in invocation.rubrics or []]
    return {rubric.rubric_id: rubric.rubric_content.text_property or "" for rubric in rubrics}


def _rubric_details(
    rubric_scores: Sequence[Any] | None, texts: dict[str, str], *measured: BaseModel | None
) -> dict[str, Any]:
    """Return rubric scores with their texts, and what else was measured, as JSON values."""
    details: dict[str, Any] = {}
    if rubric_scores:
        details["rubrics"] = [
            {"text": texts.get(score.rubric_id, ""), "score": None, **score.model_dump(exclude_none=True)}
            for score in rubric_scores
        ]
    for part in filter(None, measured):
        details.update(part.model_dump(exclude_none=True))
    return details
