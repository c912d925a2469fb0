"""Fields of agents that a variant may replace, their values as ADK's classes read them, and their tools."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.planners.built_in_planner import BuiltInPlanner
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.genai import types
from pydantic import ValidationError

from evals_app.execution import _adk
from evals_app.execution.agent_tree import read_tool_name
from evals_app.execution.model_classes import require_model_class
from evals_app.execution.validation_errors import describe_first_error
from sessions_app.adk.sequence_agents import LOOP_AGENTS
from sessions_app.store.errors import BadInput
from sessions_app.store.short_texts import join_names

MAX_NAMES = 20
"""Names that an error lists."""

INSTRUCTIONS = ("instruction", "global_instruction")
"""Fields that may also be functions, which a variant cannot replace."""

LLM_FIELDS = (
    "instruction",
    "global_instruction",
    "static_instruction",
    "description",
    "model",
    "generate_content_config",
    "output_key",
    "include_contents",
    "planner",
    "disallow_transfer_to_parent",
    "disallow_transfer_to_peers",
    "tools",
    "sub_agents",
)
"""Fields of an agent with a model."""


@dataclass(frozen=True)
class AgentOverrides:
    """Changes of one agent.

    Attributes:
        values: field → new value, as the agent has it.
        removed_tools: names of the tools that are not offered.
        descriptions: tool → its description.
        removed_agents: names of the sub-agents that are not offered.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    removed_tools: frozenset[str] = frozenset()
    descriptions: Mapping[str, str] = field(default_factory=dict)
    removed_agents: frozenset[str] = frozenset()


def read_changes(agent: BaseAgent, fields: Mapping[str, Any]) -> AgentOverrides:
    """Return the changes of an agent, checked against it.

    Args:
        fields: field → new value, as in a variant file.

    Raises:
        BadInput: a field, tool, sub-agent or model does not exist, cannot be varied, or a value has the wrong type.
    """
    subject = f"agent {agent.name!r}"
    known_fields = list_fields(agent)
    for name in fields:
        if name not in known_fields:
            raise _field_error(agent, name, known_fields)
        if name in INSTRUCTIONS and callable(getattr(agent, name)):
            raise BadInput(
                f"{subject}: its {name} is a function, which a variant cannot replace.",
                hint="Change the function, or give the agent a text.",
            )
    tools, sub_agents = fields.get("tools", {}), fields.get("sub_agents", {})
    changes = AgentOverrides(
        _read_values(agent, fields),
        frozenset(tools.get("remove", ())),
        dict(tools.get("describe", {})),
        frozenset(sub_agents.get("remove", ())),
    )
    _check_tools(agent, changes)
    _check_sub_agents(agent, changes)
    return changes


def list_fields(agent: BaseAgent) -> tuple[str, ...]:
    """Return the fields of an agent that a variant may replace."""
    if isinstance(agent, LlmAgent):
        return LLM_FIELDS
    return ("description", "sub_agents", *(("max_iterations",) if isinstance(agent, LOOP_AGENTS) else ()))


def _field_error(agent: BaseAgent, name: str, known_fields: Iterable[str]) -> BadInput:
    exists = name in type(agent).model_fields
    rule = f"its {name} cannot be varied" if exists else f"{type(agent).__name__} has no field {name!r}"
    hint = f"Fields of {agent.name} that a variant may replace: {', '.join(known_fields)}."
    return BadInput(f"agent {agent.name!r}: {rule}.", hint=hint)


def _read_values(agent: BaseAgent, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the new values, as a new agent of ADK's class has them."""
    values = {name: value for name, value in fields.items() if name not in {"tools", "sub_agents"}}
    if "model" in values:
        _check_model(agent, values["model"])
    _refuse_http_options(agent, values.get("generate_content_config"))
    if "static_instruction" in values and not isinstance(values["static_instruction"], str | None):
        raise BadInput(f"agent {agent.name!r}: static_instruction must be text.", hint="Give a text or null.")
    classes: tuple[type[BaseAgent], ...] = (LlmAgent, *LOOP_AGENTS, BaseAgent)
    agent_class: Callable[..., BaseAgent] = next(cls for cls in classes if isinstance(agent, cls))
    try:
        if "planner" in values:
            values["planner"] = _read_planner(agent, values["planner"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            probe = agent_class(name="probe", **values)
    except ValidationError as error:
        raise _value_error(agent, error) from error
    new_values = {name: getattr(probe, name) for name in values}
    if isinstance(agent, LlmAgent) and "generate_content_config" in new_values:
        config = new_values["generate_content_config"]
        new_values["generate_content_config"] = _keep_http_options(agent, config)
    return new_values


def _value_error(agent: BaseAgent, error: ValidationError, *parent_path: str) -> BadInput:
    """Return the error of a value. `parent_path`: where the value is that was validated."""
    reason = describe_first_error(error, *parent_path)
    return BadInput(f"agent {agent.name!r}: {reason}.", hint="See this field in ADK's class.")


def _check_model(agent: BaseAgent, name: Any) -> None:
    if not isinstance(name, str):
        raise BadInput(
            f"agent {agent.name!r}: model must be the name of a model.", hint="Give its name as text."
        )
    if not name and agent.parent_agent is not None:
        return  # the model of its parent
    require_model_class(name, f"agent {agent.name!r}: there is no class for the model")


def _read_planner(agent: BaseAgent, value: Any) -> BuiltInPlanner | None:
    if value is None:
        return None
    if not isinstance(value, dict) or set(value) != {"thinking_config"}:
        raise BadInput(
            f"agent {agent.name!r}: planner must be {{thinking_config: {{…}}}} or null.",
            hint="Only ADK's BuiltInPlanner can be set.",
        )
    try:
        thinking_config = types.ThinkingConfig.model_validate(value["thinking_config"])
    except ValidationError as error:
        raise _value_error(agent, error, "planner", "thinking_config") from error
    return BuiltInPlanner(thinking_config=thinking_config)


def _refuse_http_options(agent: BaseAgent, config: Any) -> None:
    if isinstance(config, dict) and config.keys() & {"http_options", "httpOptions"}:
        raise BadInput(
            f"agent {agent.name!r}: generate_content_config.http_options cannot be varied.",
            hint="Leave it out: those of the agent stay.",
        )


def _keep_http_options(agent: LlmAgent, config: types.GenerateContentConfig) -> types.GenerateContentConfig:
    """Return a generation config with the agent's own options of the connection."""
    current = agent.generate_content_config
    return config.model_copy(update={"http_options": current.http_options}) if current else config


def copy_with_description(tool: Any, description: str) -> BaseTool:
    """Return a copy of a function or tool of an agent with another description."""
    return _adk.copy_with_description(
        tool if isinstance(tool, BaseTool) else FunctionTool(func=tool), description
    )


def _check_tools(agent: BaseAgent, changes: AgentOverrides) -> None:
    tools = agent.tools if isinstance(agent, LlmAgent) else []
    names = [name for name in map(read_tool_name, tools) if name]
    for name in [*changes.removed_tools, *changes.descriptions]:
        if name not in names:
            raise _name_error(agent, "tool", name, names, _explain_toolsets(tools))
        if name in changes.removed_tools and name in changes.descriptions:
            raise BadInput(
                f"agent {agent.name!r}: the tool {name!r} is removed and described.",
                hint="Remove it or describe it, not both.",
            )
    for tool in tools:
        if (name := read_tool_name(tool)) in changes.descriptions and not _adk.is_declared(
            copy_with_description(tool, "")
        ):
            raise BadInput(
                f"agent {agent.name!r}: the tool {name!r} is built into the model and has no description.",
                hint="It can only be removed.",
            )


def _explain_toolsets(tools: Iterable[Any]) -> str:
    toolsets = dict.fromkeys(type(tool).__name__ for tool in tools if not read_tool_name(tool))
    if not toolsets:
        return ""
    return f" Tools of {join_names([*toolsets])} are known only while the agent runs, and cannot be varied."


def _check_sub_agents(agent: BaseAgent, changes: AgentOverrides) -> None:
    names = [child.name for child in agent.sub_agents]
    for name in sorted(changes.removed_agents):
        if name not in names:
            raise _name_error(agent, "sub-agent", name, names)
    held = [value for name, value in agent if name not in {"sub_agents", "parent_agent"}]
    for child in agent.sub_agents:
        if child.name in changes.removed_agents and any(value is child for value in held):
            raise BadInput(
                f"agent {agent.name!r}: the code of {type(agent).__name__} calls {child.name!r} itself, which a variant"
                " cannot prevent.",
                hint="Vary the sub-agent instead of removing it.",
            )


def _name_error(agent: BaseAgent, kind: str, name: str, names: list[str], note: str = "") -> BadInput:
    listed = f"Its {kind}s: {join_names(names, MAX_NAMES)}." if names else f"It has no {kind}s."
    return BadInput(f"agent {agent.name!r} has no {kind} {name!r}.{note}", hint=listed)
