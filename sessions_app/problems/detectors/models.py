"""Detectors of problems with models: errors, refused content and incomplete answers."""

from __future__ import annotations

from collections.abc import Iterator

from sessions_app.problems.evidence import EventEvidence, Evidence
from sessions_app.problems.failures import (
    BLOCK_REASONS,
    LENGTH_LIMIT,
    OTHER_REASONS,
    Cause,
    Source,
    failures_of,
)
from sessions_app.problems.registry import Link, Problem, Severity, detector, quote


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
    return _failures(evidence, Cause.AUTHENTICATION)


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
    return _failures(evidence, Cause.QUOTA)


@detector(
    "timeout",
    "Timed out",
    severity=Severity.ERROR,
    repeats_error=True,
    remedy="Check that the server answers, and raise the time-out of the tool, toolset or model if it is slow.",
)
def timeout(evidence: Evidence) -> Iterator[Problem]:
    """Find errors whose text states a time-out."""
    return _failures(evidence, Cause.TIMEOUT)


@detector(
    "model-error",
    "Model call failed",
    severity=Severity.ERROR,
    repeats_error=True,
    remedy="Read the error, and check the request that caused it.",
)
def model_error(evidence: Evidence) -> Iterator[Problem]:
    """Find errors of models with another cause."""
    for failure in failures_of(evidence):
        if failure.source is Source.MODEL and failure.cause is Cause.OTHER:
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
    for event, reason in _reasons(evidence):
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
    for event, reason in _reasons(evidence):
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
    for event, reason in _reasons(evidence):
        if reason == LENGTH_LIMIT:
            request = evidence.request_of(event.event_id)
            limit = request.max_output_tokens if request else None
            name = f"max_output_tokens = {limit}" if limit else "the model's limit of output tokens"
            yield _reason_problem(evidence, event, f"The answer ended at {name}")


def _reasons(evidence: Evidence) -> Iterator[tuple[EventEvidence, str]]:
    for event in evidence.events:
        yield event, event.finish_reason or event.error_code


def _reason_problem(evidence: Evidence, event: EventEvidence, text: str) -> Problem:
    links = [Link("event", event.seq)]
    if request := evidence.request_of(event.event_id):
        links.append(Link("request", request.pk, f"model request {request.number}"))
    message = f": {quote(event.error_message)}" if event.error_message else "."
    return Problem(text + message, event.seq, event.agent, links)


def _failures(evidence: Evidence, cause: Cause) -> Iterator[Problem]:
    for failure in failures_of(evidence):
        if failure.cause is cause:
            prefix = f"{quote(failure.name)}: " if failure.name else ""
            yield failure.problem(prefix + quote(failure.message, 300))
