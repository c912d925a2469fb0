"""Distinct failures of tools, models and runs, with their causes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from sessions_app.problems.evidence import Evidence, LoggedError, ResultForm
from sessions_app.problems.registry import CALL_LABEL, Link, Problem
from sessions_app.store.events.content import ABORTED
from sessions_app.store.events.error_causes import ErrorCause
from sessions_app.store.models import Trace


class FailureSource(StrEnum):
    """Kind of component that failed."""

    TOOL = "tool"
    MODEL = "model"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class ObservedFailure:
    """An error of a tool, model or run. `name` is the tool or model, `form` the form of a tool's result."""

    source: FailureSource
    seq: int
    agent: str
    name: str
    message: str
    cause: ErrorCause = ErrorCause.OTHER
    form: ResultForm | None = None
    links: tuple[Link, ...] = ()

    def problem(self, text: str) -> Problem:
        """Return a problem at the failure's event, with its links."""
        return Problem(text, self.seq, self.agent, self.links)


FAILED = "failed"
"""Status of a run, and last stage of an invocation, that ended with an error."""

ENDED = "end"
"""Last stage of an invocation that ended without an error."""

BLOCK_REASONS = frozenset(
    (
        *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "JAILBREAK"),
        *("IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR"),
    )
)
"""Finish reasons, and block reasons of prompts, with which a model refuses content."""

LENGTH_LIMIT = "MAX_TOKENS"
OTHER_REASONS = frozenset(
    (
        *("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "LANGUAGE", "OTHER", "NO_IMAGE", "IMAGE_OTHER"),
        *("TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE"),
        "BLOCK_REASON_UNSPECIFIED",
    )
)
FINISH_REASONS = BLOCK_REASONS | OTHER_REASONS | {LENGTH_LIMIT}
"""Finish reasons of answers that did not end normally."""

_HTTP = r"(?:http|status|code|error|client|server)\W{0,12}(?:status|code|error)?\W{0,4}"
_CAUSES = (
    (ErrorCause.CALL_LIMIT, re.compile(r"LlmCallsLimitExceededError|Max number of llm calls limit")),
    (ErrorCause.MISSING_KEY, re.compile(r"Context variable not found: `|KeyError: ['\"]+(?:temp|user|app):")),
    (
        ErrorCause.UNKNOWN_TOOL,
        re.compile(
            r"Tool '[^']*' not found|is not found in the tools_dict|failed as no tool with that name is available"
        ),
    ),
    (
        ErrorCause.QUOTA,
        re.compile(
            rf"RESOURCE_EXHAUSTED|RateLimitError|Too Many Requests|insufficient_quota|quota exceeded"
            rf"|exceeded your current quota|{_HTTP}429\b",
            re.IGNORECASE,
        ),
    ),
    (
        ErrorCause.AUTHENTICATION,
        re.compile(
            rf"UNAUTHENTICATED|PERMISSION_DENIED|AuthenticationError|PermissionDenied|Unauthorized|\bForbidden\b"
            rf"|invalid[_ ]api[_ ]key|API key not valid|incorrect api key|No API key was provided|API_KEY_INVALID"
            rf"|Missing key inputs argument|invalid_grant|DefaultCredentialsError|default credentials were not found"
            rf"|{_HTTP}40[13]\b",
            re.IGNORECASE,
        ),
    ),
    (
        ErrorCause.TIMEOUT,
        re.compile(
            rf"TimeoutError|DEADLINE_EXCEEDED|DeadlineExceeded|timed out|ReadTimeout|ConnectTimeout|TimeoutException"
            rf"|Gateway Time-?out|{_HTTP}504\b",
            re.IGNORECASE,
        ),
    ),
)


def _find_cause(message: str, evidence: Evidence) -> ErrorCause:
    """Return the cause of an error: from the exception if the recorder saw it, else from the text."""
    for stage in evidence.stages:
        if stage.name == Trace.ERROR_CAUSE:
            cause, _, text = stage.of.partition(": ")
            if _is_same_text(message, text) and cause in set(ErrorCause):
                return ErrorCause(cause)
    return match_cause(message)


def match_cause(message: str) -> ErrorCause:
    """Return the cause that an error text states."""
    return next((cause for cause, pattern in _CAUSES if pattern.search(message)), ErrorCause.OTHER)


@lru_cache(maxsize=4)
def find_failures(evidence: Evidence) -> tuple[ObservedFailure, ...]:
    """Return the failures of an invocation. The same error in several rows is one failure with all links."""
    distinct: list[ObservedFailure] = []
    for failure in _all_failures(evidence):
        index = next((index for index, first in enumerate(distinct) if _is_same(first, failure)), None)
        if index is None:
            distinct.append(replace(failure, cause=_find_cause(failure.message, evidence)))
        else:
            distinct[index] = _merge_failures(distinct[index], failure)
    distinct += _answered_exceptions(evidence, distinct)
    return tuple(_link_log(evidence, failure) for failure in distinct)


def _answered_exceptions(evidence: Evidence, others: Sequence[ObservedFailure]) -> Iterator[ObservedFailure]:
    """Yield the exceptions of tools that no other failure shows: a callback answered in their place."""
    for record in evidence.logged_errors:
        if record.raised_by and not any(is_same_error(other.message, record) for other in others):
            message = record.message.partition("\n")[0].partition(" raised ")[2]
            yield ObservedFailure(
                FailureSource.TOOL,
                record.seq,
                record.agent,
                record.raised_by,
                message,
                _find_cause(message, evidence),
                ResultForm.ANSWERED,
                (Link("event", record.seq, CALL_LABEL),) if record.seq else (),
            )


def is_same_error(message: str, record: LoggedError) -> bool:
    """Return whether a log record repeats the text of an error."""
    bare = _bare_message(message)
    return len(bare) > 2 and bare in record.message


def _link_log(evidence: Evidence, failure: ObservedFailure) -> ObservedFailure:
    """Return a failure with a link to its log record, preferably that of the tool's exception."""
    records = [record for record in evidence.logged_errors if is_same_error(failure.message, record)]
    if not records:
        return failure
    record = min(records, key=lambda record: (not record.raised_by, abs(record.seq - failure.seq)))
    return replace(failure, links=(*failure.links, Link("log", record.pk)))


def _merge_failures(first: ObservedFailure, other: ObservedFailure) -> ObservedFailure:
    """Return one failure for two of the same error. A tool or model is more specific than a run."""
    return replace(
        first,
        source=other.source if first.source is FailureSource.RUN else first.source,
        name=first.name or other.name,
        agent=first.agent or other.agent,
        links=tuple(dict.fromkeys((*first.links, *other.links))),
    )


def _is_same(failure: ObservedFailure, other: ObservedFailure) -> bool:
    """Return whether two failures are the same error: one text contains the other. Two events or tools differ."""
    if failure.source is other.source and (
        failure.source is FailureSource.TOOL or (failure.seq and other.seq)
    ):
        return False
    return _is_same_text(failure.message, other.message)


def _is_same_text(message: str, other: str) -> bool:
    """Return whether one message contains the other, apart from their error types."""
    messages = sorted((message, other), key=len)
    bare_messages = sorted((_bare_message(message), _bare_message(other)), key=len)
    return any(len(shorter) > 2 and shorter in longer for shorter, longer in (messages, bare_messages))


@lru_cache(maxsize=1024)
def _bare_message(message: str) -> str:
    """Return a message without its error type and quotation marks."""
    return re.sub(r"^\w+: ", "", message).strip("'\". …")[:300]


def _all_failures(evidence: Evidence) -> Iterator[ObservedFailure]:
    for result in evidence.results:
        if result.form:
            label = f"inside agent {result.agent}" if result.is_nested else "result"
            link = Link("nested" if result.is_nested else "event", result.seq, label)
            tool, message, form = result.name, result.message, result.form
            yield ObservedFailure(
                FailureSource.TOOL, result.seq, result.agent, tool, message, form=form, links=(link,)
            )
    for event in evidence.events:
        code = event.error_code
        if (code or event.error_message) and code not in FINISH_REASONS and code != ABORTED:
            message = ": ".join(filter(None, (code, event.error_message)))
            is_of_model = evidence.find_request(event.event_id) is not None
            source = FailureSource.MODEL if is_of_model else FailureSource.RUN
            yield ObservedFailure(
                source, event.seq, event.agent, "", message, links=(Link("event", event.seq),)
            )
    for request in evidence.requests:
        if request.error_type or request.error:
            message = ": ".join(filter(None, (request.error_type, request.error)))
            link = Link("request", request.pk, f"model request {request.number}")
            yield ObservedFailure(
                FailureSource.MODEL, 0, request.agent, request.model, message, links=(link,)
            )
    yield from _run_failures(evidence)


def _run_failures(evidence: Evidence) -> Iterator[ObservedFailure]:
    """Yield the errors that ended runs. If a tool raised just before, the error counts as the tool's."""
    stage_error = next((stage.of for stage in evidence.stages if stage.name == FAILED), "")
    tool = _raised_tool(evidence) if stage_error else ""
    source = FailureSource.TOOL if tool else FailureSource.RUN
    runs = [run for run in evidence.runs if run.status == FAILED]
    for run in runs:
        message = ": ".join(filter(None, (run.error_type, run.error)))
        yield ObservedFailure(source, 0, "", tool, message, links=(Link("run", run.pk),))
    if stage_error and not runs:
        link = Link("trace", evidence.trace_pk)
        yield ObservedFailure(source, 0, "", tool, stage_error, links=(link,))


def _raised_tool(evidence: Evidence) -> str:
    """Return the tool whose exception ended the invocation, if the recorder saw it."""
    failed_tools = [stage.of for stage in evidence.stages if stage.name == "tool failed"]
    answered = {result.call for result in evidence.results}
    unanswered = {call.name for call in evidence.calls if call not in answered}
    return next((name for name in reversed(failed_tools) if name in unanswered), "")
