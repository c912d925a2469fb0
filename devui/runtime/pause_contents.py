"""Contents of pauses: the call or its outcome, and the state, without credentials and of limited size."""

from __future__ import annotations

from typing import Any

from google.adk.tools.base_tool import BaseTool

from devui.runtime._adk import get_declaration
from devui.runtime.agent_description import read_schema
from sessions_app.runs import pauses
from sessions_app.runs.pauses import MAX_CONTENT, PauseContent
from sessions_app.store.events.summary import shorten
from sessions_app.store.redaction import redact
from sessions_app.store.scopes import clean_error, dumps, to_jsonable

MAX_CUT = 4_000
"""Characters that are shown of the JSON of arguments, results or contents that are too long to be edited."""

MAX_STATE_KEYS = 200
MAX_STATE_VALUE = 2_000
"""Keys of the state that a pause shows, and characters of the JSON of each; of a longer value, the beginning."""

MAX_ERROR = 2_000
"""Characters of an error's text."""


def describe_request(shown: dict[str, Any], state: dict[str, Any]) -> PauseContent:
    """Return what a pause before a model call shows, given the request as JSON (`model_calls.request_json`)."""
    content: PauseContent = {"state": _describe_state(state)} | _describe_tools(shown["tools"])
    instruction = shown["system_instruction"]
    if isinstance(instruction, str | None) and len(instruction or "") <= MAX_CONTENT:
        content["system_instruction"] = instruction or ""
    if pauses.has_editable_length(shown["contents"]):
        content["contents"] = shown["contents"]
    else:
        content["cut"] = dumps(shown["contents"])[:MAX_CUT]
    return content


def describe_call(args: dict[str, Any], schema: dict[str, Any], state: dict[str, Any]) -> PauseContent:
    """Return what a pause before a tool call shows."""
    content: PauseContent = {"schema": schema, "state": _describe_state(state)}
    if pauses.has_editable_length(args):
        content["args"] = args
    else:
        content["cut"] = dumps(args)[:MAX_CUT]
    return content


def describe_result(args: dict[str, Any], result: dict[str, Any], state: dict[str, Any]) -> PauseContent:
    """Return what a pause after a tool call shows."""
    content: PauseContent = {"state": _describe_state(state)} | _show_args(args)
    if pauses.has_editable_length(result):
        content["result"] = result
    else:
        content["cut"] = dumps(result)[:MAX_CUT]
    return content


def describe_tool_error(error: Exception, args: dict[str, Any], state: dict[str, Any]) -> PauseContent:
    """Return what a pause at an error of a tool shows."""
    return {"error": _error_text(error), "state": _describe_state(state)} | _show_args(args)


def describe_model_error(error: Exception, shown: dict[str, Any], state: dict[str, Any]) -> PauseContent:
    """Return what a pause at an error of a model shows, given the request as JSON."""
    return {"error": _error_text(error), "state": _describe_state(state)} | _describe_tools(shown["tools"])


def describe_writes(values: dict[str, Any], state: dict[str, Any]) -> PauseContent:
    """Return what a pause at an event that writes state keys shows: the state is the one with these values."""
    return {"writes": _describe_state(values), "state": _describe_state(state | values)}


def _error_text(error: Exception) -> str:
    return shorten(clean_error(f"{type(error).__name__}: {error}"), MAX_ERROR)


def _describe_tools(declarations: list[dict[str, Any]]) -> PauseContent:
    """Return the names of declared tools, and their schemas up to `MAX_CONTENT` characters together."""
    names: list[str] = []
    schemas: dict[str, dict[str, Any]] = {}
    size = 0
    for declaration in declarations:
        if not isinstance(name := declaration.get("name"), str):
            continue
        names.append(shorten(name))
        schema = declaration.get("parametersJsonSchema") or declaration.get("parameters")
        size += len(dumps(schema))
        if isinstance(schema, dict) and size <= MAX_CONTENT:
            schemas[names[-1]] = schema
    return {"tools": names, "schemas": schemas}


def _show_args(args: dict[str, Any]) -> PauseContent:
    return {"args": args} if args and pauses.has_editable_length(args) else {}


def _describe_state(state: dict[str, Any]) -> dict[str, Any]:
    values = redact(to_jsonable(dict(sorted(state.items(), key=lambda item: str(item[0]))[:MAX_STATE_KEYS])))
    return {key: _cut_value(value) for key, value in values.items()}


def _cut_value(value: Any) -> Any:
    return value if len(dumps(value)) <= MAX_STATE_VALUE else shorten(value, MAX_STATE_VALUE)


def read_parameters(tool: BaseTool) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments; empty if it has none, or one that is too large to be stored."""
    try:
        declaration = get_declaration(tool)
        schema = to_jsonable(read_schema(declaration)) if declaration else {}
    except Exception:  # a toolset of the agent; the model got the declaration all the same
        return {}
    return schema if isinstance(schema, dict) and len(dumps(schema)) <= MAX_CONTENT else {}
