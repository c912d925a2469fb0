"""Spans in the format of ADK's server (`google/adk/cli/dev_server.py`), for ADK's front end.

Ids are sent as text because JavaScript rounds 64-bit and 128-bit numbers.
"""

from __future__ import annotations

import json
from typing import Any

from sessions_app.store.models import AgentSession, ModelCall, Span
from sessions_app.traces import model_calls

MAX_SPANS = 5_000
MAX_REQUESTS = 50
"""Newest requests that are sent with a session's spans; each repeats the whole conversation."""

_PART = {
    "functionCall": "function_call",
    "functionResponse": "function_response",
    "inlineData": "inline_data",
    "fileData": "file_data",
    "executableCode": "executable_code",
    "codeExecutionResult": "code_execution_result",
    "thoughtSignature": "thought_signature",
}


def session_trace(app_name: str, session_id: str) -> list[dict[str, Any]]:
    """Return the newest spans of a session. Sessions outside of realms take precedence."""
    session = (
        AgentSession.objects.filter(app_name=app_name, session_id=session_id).order_by("realm", "-pk").first()
    )
    if session is None:
        return []
    spans = list(Span.objects.filter(session=session).order_by("-started_ns", "-pk")[:MAX_SPANS])
    event_ids = [span.event_id for span in spans if span.kind == Span.Kind.MODEL and span.event_id]
    rows = ModelCall.objects.filter(session=session, event_id__in=event_ids[:MAX_REQUESTS])
    requests = {call.event_id: call for call in rows}
    return [_span_json(span, requests.get(span.event_id)) for span in reversed(spans)]


def event_trace(app_name: str, event_id: str) -> dict[str, Any] | None:
    """Return the attributes of the span that made an event; None if there is no such span."""
    rows = Span.objects.filter(event_id=event_id, session__app_name=app_name)
    span = rows.order_by("session__realm", "-started_ns").first()
    if span is None or not event_id:
        return None
    call = ModelCall.objects.filter(session=span.session_id, event_id=event_id).first()
    return {**_span_attributes(span, call), "trace_id": span.trace_id, "span_id": span.span_id}


def _span_json(span: Span, call: ModelCall | None) -> dict[str, Any]:
    return {
        "name": span.name,
        "start_time": span.started_ns,
        "end_time": span.ended_ns,
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "parent_span_id": span.parent_id or None,
        "attributes": _span_attributes(span, call),
        "logs": [],
    }


def _span_attributes(span: Span, call: ModelCall | None) -> dict[str, Any]:
    attributes: dict[str, Any] = json.loads(span.attributes)
    if span.kind != Span.Kind.MODEL:
        return attributes
    # The front end drops a whole trace in which a model's span lacks one of these.
    attributes.setdefault("gcp.vertex.agent.event_id", span.event_id)
    attributes.setdefault("gcp.vertex.agent.invocation_id", span.invocation_id)
    if call is not None:
        attributes["gcp.vertex.agent.llm_request"] = json.dumps(_request_json(call))
        attributes["gcp.vertex.agent.llm_response"] = json.dumps(_response_json(call))
    return attributes


def _request_json(call: ModelCall) -> dict[str, Any]:
    full_request = model_calls.request_json(call)
    config = dict(full_request.get("config") or {})
    if full_request["system_instruction"]:
        config["system_instruction"] = full_request["system_instruction"]
    if full_request["tools"]:
        config["tools"] = [{"function_declarations": full_request["tools"]}]
    return {
        "model": full_request["model"],
        "config": config,
        "contents": [_content_json(content) for content in full_request["contents"]],
    }


def _response_json(call: ModelCall) -> dict[str, Any]:
    responses = model_calls.responses(call)
    return {**responses[-1], "content": _content_json(responses[-1].get("content"))} if responses else {}


def _content_json(content: Any) -> Any:
    """Return a content with the field names of ADK's spans."""
    if not isinstance(content, dict) or not isinstance(content.get("parts"), list):
        return content
    parts = [
        {_PART.get(name, name): value for name, value in part.items()} if isinstance(part, dict) else part
        for part in content["parts"]
    ]
    return {**content, "parts": parts}
