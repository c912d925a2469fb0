"""Form of a decision on a pause: changed arguments, request or result, or an answer in place of a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sessions_app.presentation import schema_form
from sessions_app.problems.argument_schema import require_accepted
from sessions_app.runs.pauses import ANSWER, FAIL, Kind, OpenPause
from sessions_app.store.errors import BadInput
from sessions_app.store.scopes import dumps
from sessions_app.store.short_texts import join_names

MAX_CHARACTERS = 400_000
"""Most characters of a text in the form."""


def parse_decision(pause: OpenPause, posted: Mapping[str, str]) -> dict[str, Any]:
    """Return what a form decides: the fields of `pauses.Decision` that it sets.

    Raises:
        BadInput: names the input, the rule and the way out.
    """
    action = posted.get("action", "")
    if action not in pause.actions:
        raise BadInput(
            f"Decision {action[:40]!r} is not possible here.",
            hint=f"Press a button: {join_names([*pause.actions], 4)}.",
        )
    if action in (ANSWER, FAIL):
        return {"action": action, **_read_answer(pause, posted, action)}
    return {"action": action, **_read_changes(pause, posted)}


def _read_answer(pause: OpenPause, posted: Mapping[str, str], action: str) -> dict[str, Any]:
    """Return the result of a tool as ADK has results, or the text or the tool call of a model."""
    if not pause.is_tool and posted.get("call_tool"):
        return {"call": _read_call(pause, posted)}
    text = _read_text(posted, "response", "Answer").strip()
    if not text:
        raise BadInput("Answer: it is empty.", hint="Write the answer that the agent gets.")
    if action == FAIL:
        return {"response": {"error": text}}
    if not pause.is_tool:
        return {"response": text}
    value = _parse_json("Answer", text) if text.startswith(("{", "[")) else text
    return {"response": value if isinstance(value, dict) else {"result": value}}


def _read_call(pause: OpenPause, posted: Mapping[str, str]) -> dict[str, Any]:
    """Return the tool call with which a person answers in place of a model."""
    name, tools = posted["call_tool"], pause.content.get("tools") or []
    if name not in tools:
        raise BadInput(
            f"Tool {name[:80]!r} is not offered by the request.",
            hint=f"Choose one of {join_names(tools, 8)}.",
        )
    args = _read_object(posted, "call_args", "Arguments of the call")
    if schema := (pause.content.get("schemas") or {}).get(name):
        require_accepted(name[:80], args, schema)
    return {"name": name, "args": args}


def _read_changes(pause: OpenPause, posted: Mapping[str, str]) -> dict[str, Any]:
    """Return what is changed before the run goes on. Nothing of an error or of a write of state can be."""
    match pause.row.kind:
        case Kind.TOOL:
            return _read_arguments(pause, posted)
        case Kind.MODEL:
            return _read_request(pause, posted)
        case Kind.RESULT:
            return _read_result(pause, posted)
    return {}


def _read_arguments(pause: OpenPause, posted: Mapping[str, str]) -> dict[str, Any]:
    """Return the changed arguments of a tool; nothing if they are as they were, or cannot be edited."""
    if "args" not in pause.content or "args" not in posted:
        return {}
    args = _read_object(posted, "args", "Arguments")
    if dumps(args) == dumps(pause.content["args"]):
        return {}
    if schema := pause.content.get("schema"):
        require_accepted(pause.row.target[:80], args, schema)
    return {"args": args}


def _read_result(pause: OpenPause, posted: Mapping[str, str]) -> dict[str, Any]:
    """Return the changed result of a tool; nothing if it is as it was, or cannot be edited."""
    if "result" not in pause.content or "result" not in posted:
        return {}
    result = _read_object(posted, "result", "Result")
    return {} if dumps(result) == dumps(pause.content["result"]) else {"result": result}


def _read_request(pause: OpenPause, posted: Mapping[str, str]) -> dict[str, Any]:
    """Return what is changed of the request to a model. The contents are checked by the runtime of the app."""
    changes: dict[str, Any] = {}
    instruction = _read_text(posted, "system_instruction", "System instruction").replace("\r\n", "\n")
    shown = pause.content.get("system_instruction")
    if shown is not None and "system_instruction" in posted and instruction != shown.replace("\r\n", "\n"):
        changes["system_instruction"] = instruction
    if "contents" in pause.content and (text := _read_text(posted, "contents", "Contents").strip()):
        contents = _parse_json("Contents", text)
        if not isinstance(contents, list) or not all(isinstance(content, dict) for content in contents):
            raise BadInput(
                "Contents: they are no JSON array of objects.",
                hint='Write [{"role": "user", "parts": [{"text": "Hello"}]}].',
            )
        if dumps(contents) != dumps(pause.content["contents"]):
            changes["contents"] = contents
    return changes


def _read_object(posted: Mapping[str, str], name: str, label: str) -> dict[str, Any]:
    """Return the JSON object in an input; an empty one if nothing is written."""
    value = _parse_json(label, _read_text(posted, name, label).strip() or "{}")
    if not isinstance(value, dict):
        raise BadInput(f"{label}: this is no JSON object.", hint='Write {"city": "Paris"}.')
    return value


def _read_text(posted: Mapping[str, str], name: str, label: str) -> str:
    text = posted.get(name, "")
    if len(text) > MAX_CHARACTERS:
        raise BadInput(f"{label}: more than {MAX_CHARACTERS:,} characters.", hint="Shorten the text.")
    return text


def _parse_json(label: str, text: str) -> Any:
    value, error = schema_form.parse_json_input(text)
    if error:
        raise BadInput(f"{label}: {error}", hint="Correct the JSON.")
    return value
