"""Detectors of problems with models: errors, refused content and incomplete answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sessions_app.problems.evidence import EventEvidence, Evidence, ModelRequest, TurnPart
from sessions_app.problems.failures import (
    BLOCK_REASONS,
    ENDED,
    LENGTH_LIMIT,
    OTHER_REASONS,
    FailureSource,
    find_failures,
)
from sessions_app.problems.registry import Link, Problem, Severity, detector, quote
from sessions_app.store.events.error_causes import ErrorCause
from sessions_app.store.models import Run


@detector(
    "auth-error",
    "Authentication failed",
    severity=Severity.ERROR,
    repeats_error=True,
    remedy="Check the key or credentials in the agent's `.env`, and that they have access to this model or service;"
    " then send the message again.",
)
def auth_error(evidence: Evidence) -> Iterator[Problem]:
    """Find errors whose text states missing, wrong or insufficient credentials."""
    return _failures_by_cause(evidence, ErrorCause.AUTHENTICATION)


@detector(
    "quota-error",
    "Quota or rate limit exceeded",
    severity=Severity.ERROR,
    repeats_error=True,
    remedy="Wait and send the message again, raise the quota, or retry with `HttpRetryOptions` in the model's"
    " config.",
)
def quota_error(evidence: Evidence) -> Iterator[Problem]:
    """Find errors whose text states an exceeded quota or rate limit."""
    return _failures_by_cause(evidence, ErrorCause.QUOTA)


@detector(
    "timeout",
    "Timed out",
    severity=Severity.ERROR,
    repeats_error=True,
    remedy="Check that the server answers, and raise the time-out of the tool, toolset or model if it is slow.",
)
def timeout(evidence: Evidence) -> Iterator[Problem]:
    """Find errors whose text states a time-out."""
    return _failures_by_cause(evidence, ErrorCause.TIMEOUT)


@detector(
    "model-error",
    "Model call failed",
    severity=Severity.ERROR,
    repeats_error=True,
    remedy="Read the error, and check the request that caused it.",
)
def model_error(evidence: Evidence) -> Iterator[Problem]:
    """Find errors of models with another cause."""
    for failure in find_failures(evidence):
        if failure.source is FailureSource.MODEL and failure.cause is ErrorCause.OTHER:
            yield failure.problem(quote(failure.message, 360))


@detector(
    "safety-block",
    "Blocked by the model's safety filter",
    remedy="Rephrase the message or instruction, or change `safety_settings` in the agent's"
    " `generate_content_config`.",
    repeats_error=True,
)
def safety_block(evidence: Evidence) -> Iterator[Problem]:
    """Find answers and prompts that the model refused."""
    for event, reason in _finish_reasons(evidence):
        if reason in BLOCK_REASONS:
            yield _reason_problem(evidence, event, f"The model stopped with {reason}")


@detector(
    "finish-reason",
    "Unusual finish reason",
    remedy="The answer may be incomplete. For MALFORMED_FUNCTION_CALL, simplify the tool's schema; for other reasons,"
    " send the message again.",
    repeats_error=True,
)
def finish_reason(evidence: Evidence) -> Iterator[Problem]:
    """Find answers that ended for another unusual reason."""
    for event, reason in _finish_reasons(evidence):
        if reason in OTHER_REASONS:
            yield _reason_problem(evidence, event, f"The model stopped with {reason}")


@detector(
    "cut-answer",
    "Answer was cut off",
    remedy="Raise `max_output_tokens` in the agent's `generate_content_config`, or ask for shorter answers. Thoughts"
    " count as output, too.",
)
def cut_answer(evidence: Evidence) -> Iterator[Problem]:
    """Find answers that reached the limit of output tokens."""
    for event, reason in _finish_reasons(evidence):
        if reason == LENGTH_LIMIT:
            request = evidence.find_request(event.event_id)
            limit = request.max_output_tokens if request else None
            name = f"max_output_tokens = {limit}" if limit else "the model's limit of output tokens"
            yield _reason_problem(evidence, event, f"The answer ended at {name}")


@detector(
    "no-answer",
    "Ended without an answer",
    remedy="Look at the request and its finish reason. A model class that streams must end with the whole response,"
    " without `partial`: ADK stores only that one. If only thoughts came, raise `max_output_tokens` or lower the"
    " thinking budget in the agent's `generate_content_config`. Otherwise ask for an answer in the instruction.",
)
def no_answer(evidence: Evidence) -> Iterator[Problem]:
    """Find invocations that ended well although the last reply of a model is empty, or was not stored."""
    if not _has_ended_well(evidence):
        return
    events = [event for event in evidence.events if event.turn_part]
    last = events[-1] if events else None
    if last and last.turn_part is TurnPart.EMPTY_REPLY:
        if not last.finish_reason and not _has_answered(events, last.agent):
            text = f"The last reply of {last.agent} has no text, call or other content"
            yield replace(_reason_problem(evidence, last, text), seq=0)  # a later event may answer
    elif request := _unstored_request(evidence, last):
        content = "only partial responses" if request.is_partial else "no content"
        reason = f" (finish reason {quote(request.finish_reason)})" if request.finish_reason else ""
        text = f"The last reply to {request.agent} has {content}{reason}, so ADK stored no event of it."
        yield Problem(
            text, 0, request.agent, [Link("request", request.pk, f"model request {request.number}")]
        )


def _has_ended_well(evidence: Evidence) -> bool:
    """Tell whether an invocation is not active, waits for no answer, did not fail and was not cancelled."""
    is_done = not evidence.runs or evidence.runs[-1].status == Run.Status.DONE
    return is_done and (not evidence.stages or evidence.stages[-1].name == ENDED)


def _has_answered(events: Sequence[EventEvidence], agent: str) -> bool:
    """Tell whether an agent has answered since the last message, call or result: models may end with an empty reply."""
    agent_events = (event for event in reversed(events) if event.agent in (agent, "user"))
    before = next((event for event in agent_events if event.turn_part is not TurnPart.EMPTY_REPLY), None)
    return before is not None and before.turn_part is TurnPart.ANSWER


def _unstored_request(evidence: Evidence, last: EventEvidence | None) -> ModelRequest | None:
    """Return the last model request if no event has its response, and no later answer replaces it."""
    request = max(evidence.requests, key=lambda request: request.started_at, default=None)
    if request is None or request.event_ids or request.error_type or request.error or request.is_live:
        return None
    is_answered = last and last.turn_part is TurnPart.ANSWER and not evidence.find_request(last.event_id)
    return None if is_answered else request


def _finish_reasons(evidence: Evidence) -> Iterator[tuple[EventEvidence, str]]:
    for event in evidence.events:
        yield event, event.finish_reason or event.error_code


def _reason_problem(evidence: Evidence, event: EventEvidence, text: str) -> Problem:
    links = [Link("event", event.seq)]
    if request := evidence.find_request(event.event_id):
        links.append(Link("request", request.pk, f"model request {request.number}"))
    message = f": {quote(event.error_message)}" if event.error_message else "."
    return Problem(text + message, event.seq, event.agent, links)


def _failures_by_cause(evidence: Evidence, cause: ErrorCause) -> Iterator[Problem]:
    for failure in find_failures(evidence):
        if failure.cause is cause:
            prefix = f"{quote(failure.name)}: " if failure.name else ""
            yield failure.problem(prefix + quote(failure.message, 300))
