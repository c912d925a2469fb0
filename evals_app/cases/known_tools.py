"""Tools of an agent as its description declares them, and expected calls that do not fit them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from evals_app.cases.form_fields import Nested, field_text, form_rows
from sessions_app.agents.cards import TOOLS_OF_ADK, is_toolset, iter_agents, read_description
from sessions_app.store.short_texts import join_names


@dataclass(frozen=True)
class KnownTools:
    """Tools by name, each with its arguments and their types.

    `is_complete`: the agent has no other tools. A toolset lists its tools only when it runs.
    """

    arguments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    is_complete: bool = False

    def describe_calls(self, data: Nested) -> dict[str, str]:
        """Return the arguments of the tools that calls in form data are of, by field; "" for an unknown tool."""
        return {f"{path}.args": self._describe_arguments(name) for path, name, _ in _iter_calls(data)}

    def check_calls(self, data: Nested) -> dict[str, str]:
        """Return warnings for expected calls in form data, by field: of unknown tools and unknown arguments."""
        warnings: dict[str, str] = {}
        for path, name, arguments in _iter_calls(data):
            if name in self.arguments:
                if warning := self._check_arguments(name, arguments):
                    warnings[f"{path}.args"] = warning
            elif name and self.is_complete and name not in TOOLS_OF_ADK:
                warnings[f"{path}.name"] = f"The agent has no tool {name!r}."
        return warnings

    def _describe_arguments(self, name: str) -> str:
        arguments = self.arguments.get(name, {})
        return ", ".join(
            f"`{argument}`: {kind}" if kind else f"`{argument}`" for argument, kind in arguments.items()
        )

    def _check_arguments(self, name: str, text: str) -> str:
        try:
            given = json.loads(text or "{}")
        except (ValueError, RecursionError):
            return ""
        declared = self.arguments[name]
        if not declared or not isinstance(given, dict):
            return ""
        unknown = [repr(argument) for argument in given if argument not in declared]
        return f"{name} has no argument {join_names(unknown)}." if unknown else ""


def _iter_calls(data: Nested) -> Iterator[tuple[str, str, str]]:
    """Yield the calls in form data: path of their fields, name of the tool, and arguments as JSON."""
    for turn_index, turn in enumerate(form_rows(data, "turns")):
        for index, call in enumerate(form_rows(turn, "calls")):
            name = field_text(call, "name").strip()
            yield f"turns.{turn_index}.calls.{index}", name, field_text(call, "args")


def read_known_tools(app_name: str) -> KnownTools:
    """Return the tools of an app's agents, as they were loaded last; none if they never were."""
    tools = [tool for agent in iter_agents(read_description(app_name)) for tool in agent.get("tools") or []]
    is_complete = bool(tools) and not any(is_toolset(tool) or tool.get("problem") for tool in tools)
    arguments = {tool["name"]: _read_arguments(tool) for tool in tools if not is_toolset(tool)}
    return KnownTools(dict(sorted(arguments.items())), is_complete)


def _read_arguments(tool: Mapping[str, Any]) -> dict[str, str]:
    properties = (tool.get("schema") or {}).get("properties") or {}
    return {name: _name_type(schema) for name, schema in properties.items()}


def _name_type(schema: Any) -> str:
    """Return the type of an argument in words; "" if its schema names none."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return " or ".join(map(str, kind if isinstance(kind, list) else [kind or ""])).lower()
