"""Messages of models in the forms of ADK, OpenTelemetry, OpenInference and OpenAI, as contents of events. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sessions_app.store import scopes

Content = dict[str, Any]
"""A content in the wire form of events: role and parts."""

_ADK_PARTS = {
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "inline_data": "inlineData",
    "file_data": "fileData",
    "executable_code": "executableCode",
    "code_execution_result": "codeExecutionResult",
}
_OBJECTS = frozenset(_ADK_PARTS.values())
_FIELDS = {"mime_type": "mimeType", "file_uri": "fileUri", "display_name": "displayName"}
_DROPPED = frozenset({"thought_signature", "thoughtSignature"})
_MODEL_ROLES = frozenset({"assistant", "model", "ai"})
_SYSTEM_ROLES = ("system", "developer")
_EVENT_ROLES = {
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
"""Roles of messages by the names of their events, of OpenTelemetry 1.36."""

_ELIDED = "<elided>"
"""ADK's text in place of a content that may not be exported."""


def parse_if_json(value: Any) -> Any:
    """Return the value of a JSON text in storable form; other values, and texts that are no JSON, unchanged."""
    if isinstance(value, str) and value.startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            return scopes.to_jsonable(json.loads(value))
    return value


def read_text(value: Any, role: str) -> list[Content]:
    """Return a plain text as one content; none if it is JSON or no text."""
    is_text = isinstance(value, str) and value and not isinstance(parse_if_json(value), dict | list)
    return [{"role": role, "parts": [{"text": value}]}] if is_text else []


def read_messages(messages: Any) -> list[Content]:
    """Return messages with parts (OpenTelemetry), or with content and tool calls (OpenInference, OpenAI)."""
    if not isinstance(messages, list):
        return []
    contents = (
        _read_message(message)
        for message in messages
        if isinstance(message, dict) and message.get("role") not in _SYSTEM_ROLES
    )
    return [content for content in contents if content["parts"]]


def read_adk_contents(contents: Any) -> list[Content]:
    """Return contents as ADK writes them into spans: parts with names in snake case."""
    if not isinstance(contents, list):
        return []
    read = (_read_adk_content(content) for content in contents)
    return [content for content in read if content and content["parts"]]


def read_message_events(events: Iterable[Mapping[str, Any]]) -> list[Content]:
    """Return the contents of events such as `gen_ai.user.message`, of OpenTelemetry 1.36."""
    contents = []
    for event in events:
        role = _EVENT_ROLES.get(str(event.get("name")))
        if role and (body := _event_body(event)):
            contents += _read_event_content(body, role)
    return contents


def read_choice_events(events: Iterable[Mapping[str, Any]]) -> list[Content]:
    """Return the contents of `gen_ai.choice` events, of OpenTelemetry 1.36."""
    contents = []
    for event in events:
        if event.get("name") == "gen_ai.choice" and (body := _event_body(event)):
            message = body.get("message")
            contents += _read_event_content(message if isinstance(message, dict) else body, "assistant")
    return contents


def read_system_events(events: Iterable[Mapping[str, Any]]) -> str:
    """Return the instruction in a `gen_ai.system.message` event; empty if there is none."""
    for event in events:
        if event.get("name") == "gen_ai.system.message" and (body := _event_body(event)):
            return read_instruction(body.get("content"))
    return ""


def read_system_messages(messages: Any) -> str:
    """Return the text of the first message of the system in a list of messages; empty if there is none."""
    for message in as_list(messages):
        if isinstance(message, dict) and message.get("role") in _SYSTEM_ROLES:
            return read_instruction(message.get("parts") or message.get("content"))
    return ""


def read_instruction(value: Any) -> str:
    """Return the text of an instruction: a text, a content, or a list of parts."""
    value = parse_if_json(value)
    if isinstance(value, dict):
        value = value.get("parts")
    if isinstance(value, list):
        texts = (part.get("content", part.get("text")) for part in value if isinstance(part, dict))
        value = "\n".join(text for text in texts if isinstance(text, str))
    return value if isinstance(value, str) and value != _ELIDED else ""


def _event_body(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a record of the log, or the attributes of an event of a span."""
    attributes = event.get("attributes")
    body = event.get("body")
    if body is None and isinstance(attributes, dict):
        body = parse_if_json(attributes.get("gen_ai.event.content")) or attributes
    return body if isinstance(body, dict) else {}


def _read_event_content(body: Mapping[str, Any], role: str) -> list[Content]:
    content = parse_if_json(body.get("content"))
    if content == _ELIDED:
        return []
    if isinstance(content, dict) and "parts" in content:
        return read_adk_contents([content])
    return read_messages([{**body, "role": role}])


def _read_adk_content(content: Any) -> Content | None:
    if not isinstance(content, dict) or not isinstance(content.get("parts"), list):
        return None
    role = "model" if str(content.get("role")) in _MODEL_ROLES else "user"
    parts = [_read_adk_part(part) for part in content["parts"] if isinstance(part, dict)]
    return {"role": role, "parts": [part for part in parts if part]}


def _read_adk_part(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part with ADK's names; one with values of other types than ADK's as a text."""
    read = {
        _ADK_PARTS.get(name, name): {
            _FIELDS.get(key, key): item for key, item in value.items() if item is not None
        }
        if isinstance(value, dict) and name in _ADK_PARTS
        else value
        for name, value in part.items()
        if value is not None and name not in _DROPPED
    }
    if not isinstance(read.get("text", ""), str) or not all(
        isinstance(value, dict) for name, value in read.items() if name in _OBJECTS
    ):
        return _unknown_part(part)
    if call := read.get("functionCall"):
        read |= _call_part(call.get("id"), call.get("name"), call.get("args"))
    if response := read.get("functionResponse"):
        read |= _response_part(response.get("id"), response.get("name"), response.get("response"))
    return read


def _read_message(message: Mapping[str, Any]) -> Content:
    role = str(message.get("role") or "")
    if isinstance(message.get("parts"), list):
        parts = [_read_part(part) for part in message["parts"]]
    elif role == "tool":
        parts = [
            _response_part(
                message.get("tool_call_id") or message.get("id"), message.get("name"), message.get("content")
            )
        ]
    else:
        parts = [*_read_content_parts(message), *map(_read_tool_call, as_list(message.get("tool_calls")))]
    return {"role": "model" if role in _MODEL_ROLES else "user", "parts": [part for part in parts if part]}


def _read_content_parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a message's content: a text or, in OpenInference and OpenAI, a list of texts and others."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"text": content}] if content and content != _ELIDED else []
    parts = []
    for item in as_list(content if content is not None else message.get("contents")):
        inner = item.get("message_content", item) if isinstance(item, dict) else item
        if isinstance(inner, dict) and isinstance(inner.get("text"), str):
            parts.append({"text": inner["text"]})
        elif inner:
            parts.append(_unknown_part(inner))
    return parts


def _read_part(part: Any) -> dict[str, Any]:
    """Return a part of OpenTelemetry's messages."""
    if not isinstance(part, dict):
        return _unknown_part(part)
    content, kind = part.get("content"), part.get("type")
    if kind in ("text", "reasoning") and isinstance(content, str):
        return {"text": content, "thought": True} if kind == "reasoning" else {"text": content}
    if kind == "tool_call":
        return _call_part(part.get("id"), part.get("name"), part.get("arguments"))
    if kind == "tool_call_response":
        return _response_part(part.get("id"), part.get("name"), part.get("response", part.get("result")))
    if kind in ("file_data", "uri") and part.get("uri"):
        return {"fileData": {"mimeType": str(part.get("mime_type") or ""), "fileUri": str(part["uri"])}}
    if kind == "blob" and isinstance(part.get("data", content), str):
        return {
            "inlineData": {"mimeType": str(part.get("mime_type") or ""), "data": part.get("data", content)}
        }
    return _unknown_part(part)


def _read_tool_call(call: Any) -> dict[str, Any]:
    """Return a tool call of OpenAI's form, which OpenInference puts into `tool_call`."""
    call = call.get("tool_call", call) if isinstance(call, dict) else {}
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        function = {}
    return _call_part(call.get("id"), function.get("name"), function.get("arguments"))


def _call_part(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    value = parse_if_json(arguments)
    args = value if isinstance(value, dict) else {} if value in (None, "") else {"input": value}
    return {"functionCall": {"id": str(call_id or ""), "name": str(name or ""), "args": args}}


def _response_part(call_id: Any, name: Any, response: Any) -> dict[str, Any]:
    value = parse_if_json(response)
    body = value if isinstance(value, dict) else {"result": value}
    return {"functionResponse": {"id": str(call_id or ""), "name": str(name or ""), "response": body}}


def _unknown_part(value: Any) -> dict[str, Any]:
    """Return a part of an unknown kind as a text with its JSON."""
    return {"text": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}


def as_list(value: Any) -> Sequence[Any]:
    """Return a list; an empty one for other values."""
    return value if isinstance(value, list) else []
