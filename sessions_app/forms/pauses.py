"""Form of a decision on a pause: changed arguments or request, or an answer in place of the call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sessions_app.presentation import schema_form
from sessions_app.problems.argument_schema import require_accepted
from sessions_app.runs.pauses import ACTIONS, ANSWER, FAIL, OpenPause
from sessions_app.store.errors import BadInput
from sessions_app.store.scopes import dumps
from sessions_app.store.short_texts import join_names

MAX_CHARACTERS = 400_000
"""Most characters of a text in the form."""


def read_decision(pause: OpenPause, posted: Mapping[str, str]) -> dict[str, Any]:
    """Return what a form decides: the fields of `pauses.Decision` that it sets.

    Raises:
        BadInput: names the input, the rule and the way out.
    """
    action = posted.get("action", "")
    if action not in ACTIONS:
        raise BadInput(
            f"Decision {action[:40]!r} is unknown.", hint=f"Press a button: {join_names([*ACTIONS], 4)}."
        )
    if action in (ANSWER, FAIL):
        return {"action": action, "response": _read_response(pause, posted, action)}
    changes = _read_arguments(pause, posted) if pause.is_tool else _read_request(pause, posted)
    return {"action": action, **changes}


def _read_response(pause: OpenPause, posted: Mapping[str, str], action: str) -> dict[str, Any] | str:
    """Return the result of a tool as ADK has results, or the text of a model."""
    text = _read_text(posted, "response", "Answer").strip()
    if not text:
        raise BadInput("Answer: it is empty.", hint="Write the answer that the agent gets.")
    if action == FAIL:
        if not pause.is_tool:
            raise BadInput("Answer: a model gives no error.", hint="Answer with a text, or cancel the run.")
        return {"error": text}
    if not pause.is_tool:
        return text
    value = _parse_json("Answer", text) if text.startswith(("{", "[")) else text
    return value if isinstance(value, dict) else {"result": value}


def _read_arguments(pause: OpenPause, posted: Mapping[str, str]) -> dict[str, Any]:
    """Return the changed arguments of a tool; nothing if they are as they were, or cannot be edited."""
    if "args" not in pause.content or "args" not in posted:
        return {}
    args = _parse_json("Arguments", _read_text(posted, "args", "Arguments").strip() or "{}")
    if not isinstance(args, dict):
        raise BadInput("Arguments: they are no JSON object.", hint='Write {"city": "Paris"}.')
    if dumps(args) == dumps(pause.content["args"]):
        return {}
    if schema := pause.content.get("schema"):
        require_accepted(pause.row.target[:80], args, schema)
    return {"args": args}


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
