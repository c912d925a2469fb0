"""Read parts, calls, results, text and control signals from an event's wire form."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

INTERNAL_METADATA_PREFIX = "__adk_internal_"
"""Prefix of ADK's internal keys in `customMetadata`. They are stored but never sent out."""

TRANSCRIPTIONS = ("inputTranscription", "outputTranscription")
"""Fields with the transcribed speech of a live session."""

RETRIED_ERROR = "ERROR_HANDLED_BY_REFLECT_AND_RETRY_PLUGIN"
"""`response_type` of results in which ADK's `ReflectAndRetryToolPlugin` wraps tool errors."""

ABORTED = "INVOCATION_ABORTED"
"""`errorCode` of the events with which ADK closes a cancelled invocation (`google/adk/events/_abort_events.py`)."""

INTERIM_STATUSES = frozenset(
    {"pending", "queued", "submitted", "started", "running", "working", "processing", "in progress"}
)
"""Values of `status` in interim responses of long-running tools, as ADK, A2A and job queues have them."""

PARTIAL_ANSWER = "devui_partial_answer"
"""Metadata key of a closing event with the text that an agent had streamed when its invocation was cancelled.

A list of {author, branch, parts}. It is not the event's content, because content is sent to models.
"""

CHANGES_BY_PERSON = "devui_changes"
"""Metadata key of an event with what a person changed of the call that produced it, at a pause of the run.

A list of {what: arguments, result, request or answer; by: name of the person; for tools also tool, call_id and the
changed args}.
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
    public_metadata = {
        key: value for key, value in metadata.items() if not key.startswith(INTERNAL_METADATA_PREFIX)
    }
    if len(public_metadata) == len(metadata):
        return dict(wire)
    public = {key: value for key, value in wire.items() if key != "customMetadata"}
    return {**public, "customMetadata": public_metadata} if public_metadata else public


def content_parts(wire: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of the event's content."""
    content = wire.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    return [part for part in parts or [] if isinstance(part, dict)]


def is_aborted(wire: Mapping[str, Any]) -> bool:
    """Tell whether the event closes a cancelled invocation, which is not an error."""
    return wire.get("errorCode") == ABORTED


def partial_answers(wire: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the partial answers of a cancelled invocation, each {author, branch, parts}."""
    metadata = wire.get("customMetadata")
    broken_off = metadata.get(PARTIAL_ANSWER) if is_aborted(wire) and isinstance(metadata, dict) else None
    return (
        [answer for answer in broken_off if isinstance(answer, dict)] if isinstance(broken_off, list) else []
    )


def partial_parts(wire: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a cancelled invocation's partial answers."""
    return [part for answer in partial_answers(wire) for part in content_parts({"content": answer})]


def function_calls(wire: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the function calls among the event's parts."""
    return [part["functionCall"] for part in content_parts(wire) if part.get("functionCall")]


def function_responses(wire: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the function responses among the event's parts."""
    return [part["functionResponse"] for part in content_parts(wire) if part.get("functionResponse")]


def find_blob(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the bytes of a part as `inlineData`, also those in the result of a tool; None without bytes.

    A tool of an MCP server returns {content: [block]} with blocks of the type image, audio or resource; one of ADK for
    computer use {image: {mimetype, data}} (`google/adk/tools/computer_use/computer_use_tool.py`).
    """
    inline = body.get("inlineData")
    if isinstance(inline, dict) and inline:
        return inline
    resource = body.get("resource")
    if body.get("type") == "resource" and isinstance(resource, Mapping) and resource.get("blob"):
        names = {"blob": "data", "mimeType": "mimeType", "uri": "displayName"}
        return {names[name]: value for name, value in resource.items() if name in names}
    if not isinstance(body.get("data"), str):
        return None
    if isinstance(body.get("mimetype"), str):
        return {"data": body["data"], "mimeType": body["mimetype"]}
    return (
        {"data": body["data"], "mimeType": body.get("mimeType")}
        if body.get("type") in ("image", "audio")
        else None
    )


def list_media_blocks(response: object, pointer: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Return the content blocks with bytes of a tool's result (`find_blob`), each with its JSON pointer.

    A function may pass on what a server returned, its list or one block; ADK stores these as `result`.
    """
    if (
        isinstance(response, dict)
        and (response.get("type") or "mimetype" in response)
        and find_blob(response)
    ):
        return [(pointer, response)]
    if isinstance(response, list):
        inner: list[tuple[str, Any]] = [(str(number), item) for number, item in enumerate(response)]
    elif isinstance(response, dict):
        inner = [(name, response.get(name)) for name in MEDIA_FIELDS]
    else:
        return []
    return [block for name, item in inner for block in list_media_blocks(item, f"{pointer}/{name}")]


MEDIA_FIELDS = ("content", "result", "image")
"""Fields of results that may have content blocks."""


def read_a2a_data(part: Mapping[str, Any]) -> Any:
    """Return the JSON data that an agent on another server (A2A) sent as a part; None for other parts.

    ADK stores it as a text file in tags (`google/adk/a2a/converters/part_converter.py`).
    """
    blob = part.get("inlineData")
    if not isinstance(blob, Mapping) or blob.get("displayName"):
        return None  # a named file is one to open
    data, is_json = blob.get("data"), str(blob.get("mimeType")).startswith("application/json")
    if not isinstance(data, str) or not (is_json or data.startswith(_DATA_START_BASE64)):
        return None
    try:
        text = base64.b64decode(data.translate(_STANDARD_BASE64) + "=" * (-len(data) % 4)).decode()
        return json.loads(text.removeprefix(_DATA_START).removesuffix(_DATA_END))
    except (ValueError, RecursionError):
        return None


_DATA_START, _DATA_END = "<a2a_datapart_json>", "</a2a_datapart_json>"
_DATA_START_BASE64 = base64.b64encode(_DATA_START.encode()[:18]).decode()
_STANDARD_BASE64 = str.maketrans("-_", "+/")


def message_text(wire: Mapping[str, Any], *, thoughts: bool = False) -> str:
    """Return the event's text without thoughts, or only the thoughts."""
    return "".join(
        part["text"]
        for part in (*content_parts(wire), *partial_parts(wire))
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
    parts = content_parts(wire)
    trailing_result = bool(parts) and parts[-1].get("codeExecutionResult") is not None
    return not (calls or function_responses(wire) or wire.get("partial") or trailing_result)


def control_signals(actions: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of the control signals among an event's actions."""
    for name in _SIGNALS:
        value = actions.get(name)
        if value not in (None, False, {}, []):
            yield name, value


def is_interim_result(response: Mapping[str, Any]) -> bool:
    """Tell whether a function response to a long-running tool's call says by its `status` that another one follows.

    What ADK itself asks for (`adk_request_…`) is answered at once.
    """
    body = response.get("response")
    status = body.get("status") if isinstance(body, dict) else None
    if not isinstance(status, str) or str(response.get("name") or "").startswith("adk_request_"):
        return False
    return re.sub(r"[-_ ]+", " ", status.strip().lower()) in INTERIM_STATUSES


def is_failed_result(body: object) -> bool:
    """Tell whether the body of a function response reports a failure of the tool.

    ADK's own tools return `{"error": …}`, others `{"status": "error"}`, MCP servers `isError` (`is_error` in newer
    SDKs, see `google/adk/tools/mcp_tool/mcp_tool.py`), and ADK's retry plug-in wraps the exception.
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


UNCONFIRMED = "requires confirmation"
"""Text in the result that ADK gives to a call which awaits confirmation (`google/adk/tools/_confirmation_utils.py`)."""

REQUESTS = frozenset({"adk_request_input", "adk_request_credential"})
"""Calls that wait for an answer even without `longRunningToolIds`, as in ADK (`google/adk/events/_interrupts.py`)."""


def waiting_call_ids(wire: Mapping[str, Any]) -> set[str]:
    """Return the ids of the calls that wait for an answer from outside."""
    requests = (call.get("id") for call in function_calls(wire) if call.get("name") in REQUESTS)
    return {*(wire.get("longRunningToolIds") or ()), *filter(None, requests)}


def failed_results(wire: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the function responses of failed tools.

    Required confirmations and the calls of a cancelled invocation look like errors in ADK, but are not counted.
    """
    if is_aborted(wire):
        return []
    unconfirmed = (wire.get("actions") or {}).get("requestedToolConfirmations") or {}
    failed = [response for response in function_responses(wire) if is_failed_result(response.get("response"))]
    for call_id in unconfirmed:  # other calls may share the id of the one that awaits confirmation
        same_id = [response for response in failed if response.get("id") == call_id]
        asking = [response for response in same_id if UNCONFIRMED in str(response["response"].get("error"))]
        for response in asking or same_id[:1]:
            failed.remove(response)
    return failed


def as_seconds(value: object) -> float:
    """Return an event's time as a float; 0.0 for anything that is not a number."""
    return float(value) if isinstance(value, int | float) else 0.0
