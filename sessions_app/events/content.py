"""What an event says in its wire form: its parts, calls and results, its text, its kind and its signals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sessions_app.models import EventKind

INTERNAL_METADATA_PREFIX = "__adk_internal_"
"""ADK keeps its own marks under this prefix of `customMetadata`; they are stored and never sent out."""

TRANSCRIPTIONS = ("inputTranscription", "outputTranscription")
"""What was said to and by an agent that is spoken with, in words."""

RETRIED_ERROR = "ERROR_HANDLED_BY_REFLECT_AND_RETRY_PLUGIN"
"""`response_type` of the results in which ADK's `ReflectAndRetryToolPlugin` wraps the errors of tools."""

ABORTED = "INVOCATION_ABORTED"
"""`errorCode` of the events by which ADK closes a cancelled invocation (`google/adk/events/_abort_events.py`)."""

PARTIAL_ANSWER = "devui_partial_answer"
"""What an agent had streamed when its invocation was cancelled, under this name of the closing event's metadata.

A list of {author, branch, parts}. It is no content: models are given content, and this is no answer of theirs.
"""

_SIGNALS = (
    "transferToAgent",
    "escalate",
    "skipSummarization",
    "endOfAgent",
    "agentState",
    "rewindBeforeInvocationId",
    "compaction",
    "route",
    "requestedAuthConfigs",
    "requestedToolConfirmations",
    "renderUiWidgets",
    "setModelResponse",
)


def without_internals(wire: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event without ADK's internal metadata (`google/adk/events/_internal_metadata.py`)."""
    metadata = wire.get("customMetadata")
    if not isinstance(metadata, dict):
        return dict(wire)
    kept = {key: value for key, value in metadata.items() if not key.startswith(INTERNAL_METADATA_PREFIX)}
    if len(kept) == len(metadata):
        return dict(wire)
    public = {key: value for key, value in wire.items() if key != "customMetadata"}
    return {**public, "customMetadata": kept} if kept else public


def parts_of(wire: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of the event's content."""
    content = wire.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    return [part for part in parts or [] if isinstance(part, dict)]


def is_aborted(wire: Mapping[str, Any]) -> bool:
    """Tell whether ADK wrote the event to close an invocation that was cancelled: that is no error."""
    return wire.get("errorCode") == ABORTED


def partial_answers(wire: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the answers that a cancelled invocation broke off: {author, branch, parts} of each."""
    metadata = wire.get("customMetadata")
    broken_off = metadata.get(PARTIAL_ANSWER) if is_aborted(wire) and isinstance(metadata, dict) else None
    return (
        [answer for answer in broken_off if isinstance(answer, dict)] if isinstance(broken_off, list) else []
    )


def partial_parts(wire: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of the answers that a cancelled invocation broke off."""
    return [part for answer in partial_answers(wire) for part in parts_of({"content": answer})]


def function_calls(wire: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the function calls among the event's parts."""
    return [part["functionCall"] for part in parts_of(wire) if part.get("functionCall")]


def function_responses(wire: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the function responses among the event's parts."""
    return [part["functionResponse"] for part in parts_of(wire) if part.get("functionResponse")]


def message_text(wire: Mapping[str, Any], *, thoughts: bool = False) -> str:
    """Return the event's text without its thoughts, or the thoughts alone."""
    return "".join(
        part["text"]
        for part in (*parts_of(wire), *partial_parts(wire))
        if isinstance(part.get("text"), str) and bool(part.get("thought")) is thoughts
    )


def is_final_response(wire: Mapping[str, Any]) -> bool:
    """Tell whether the event is a final response (ADK's rule, `Event.is_final_response`)."""
    actions = wire.get("actions") or {}
    if actions.get("skipSummarization") or wire.get("longRunningToolIds"):
        return True
    calls = function_calls(wire)
    if wire.get("errorCode") and not wire.get("partial") and not calls:
        return True
    parts = parts_of(wire)
    trailing_result = bool(parts) and parts[-1].get("codeExecutionResult") is not None
    return not (calls or function_responses(wire) or wire.get("partial") or trailing_result)


def kind_of(wire: Mapping[str, Any]) -> EventKind:
    """Tell which of the seven kinds the event is; the most telling one when several fit."""
    actions = wire.get("actions") or {}
    if (wire.get("errorCode") or wire.get("errorMessage")) and not is_aborted(wire):
        return EventKind.ERROR
    if function_calls(wire):
        return EventKind.TOOL_CALL
    if function_responses(wire):
        return EventKind.TOOL_RESULT
    if (
        parts_of(wire)
        or partial_parts(wire)
        or any(isinstance(wire.get(name), dict) for name in TRANSCRIPTIONS)
    ):
        return EventKind.USER if wire.get("author") == "user" else EventKind.AGENT
    if any(True for _ in control_signals(actions)):
        return EventKind.CONTROL
    if actions.get("stateDelta"):
        return EventKind.STATE
    return EventKind.AGENT if wire.get("output") is not None else EventKind.CONTROL


def control_signals(actions: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of the control signals among an event's actions."""
    for name in _SIGNALS:
        value = actions.get(name)
        if value not in (None, False, {}, []):
            yield name, value


def is_failed_result(body: object) -> bool:
    """Tell whether the body of a function response says that the tool failed.

    ADK's own tools answer `{"error": …}`, others `{"status": "error"}`, MCP servers `isError` (`is_error` in newer
    SDKs, see `google/adk/tools/mcp_tool/mcp_tool.py`), and ADK's retry plug-in wraps what it caught.
    """
    if not isinstance(body, dict):
        return False
    return bool(
        body.get("error")
        or body.get("status") == "error"
        or body.get("isError")
        or body.get("is_error")
        or body.get("response_type") == RETRIED_ERROR
    )


def failed_results(wire: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the function responses of failed tools.

    ADK words as errors what is none: a wanted confirmation, and the calls of a cancelled invocation.
    """
    if is_aborted(wire):
        return []
    unconfirmed = (wire.get("actions") or {}).get("requestedToolConfirmations") or {}
    return [
        response
        for response in function_responses(wire)
        if is_failed_result(response.get("response")) and response.get("id") not in unconfirmed
    ]


def is_error(wire: Mapping[str, Any]) -> bool:
    """Tell whether the event counts as an error: it is one itself, or brings the result of a tool that failed."""
    return kind_of(wire) is EventKind.ERROR or bool(failed_results(wire))


def as_seconds(said: object) -> float:
    """Return a time as an event has it; a text that some other program wrote in its place counts as none."""
    return float(said) if isinstance(said, int | float) else 0.0
