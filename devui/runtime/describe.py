"""What an app's agents look like, as plain JSON: what the agent page shows.

Nothing here calls the agent's code: a toolset is named, not resolved (that may start a server), an instruction
provider is named, not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, get_type_hints

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.loop_agent import LoopAgent
from google.adk.apps.app import App
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.workflow import Workflow
from google.genai import types
from pydantic import TypeAdapter

from devui.runtime import _adk

AGENT_CALLBACKS = ("before_agent_callback", "after_agent_callback")
LLM_CALLBACKS = (
    "before_model_callback",
    "after_model_callback",
    "on_model_error_callback",
    "before_tool_callback",
    "after_tool_callback",
    "on_tool_error_callback",
)


def describe(root: _adk.Node, app: App | None, app_name: str) -> dict[str, Any]:
    """Return the tree of agents, with the app's settings under `app`.

    An agent has name, type, description, sub_agents and callbacks {hook: [names]}; an LLM agent also model,
    instruction (text) or instruction_provider (name), the same for global_instruction, static_instruction,
    tools [{name, type, description, long_running, schema}], output_key and mode; a workflow has nodes and edges.
    """
    return {**_node(root), "app": _settings(app, app_name)}


def _settings(app: App | None, app_name: str) -> dict[str, Any]:
    if app is None:
        return {"name": app_name, "is_app": False}
    resumability = app.resumability_config
    return {
        "name": app.name,
        "is_app": True,
        "plugins": [type(plugin).__name__ for plugin in app.plugins],
        "resumable": bool(resumability and resumability.is_resumable),
        "context_cache": _dump(app.context_cache_config),
        "compaction": _dump(app.events_compaction_config),
    }


def _dump(config: Any) -> dict[str, Any] | None:
    """Return a config's values; parts that are objects are named."""
    if config is None:
        return None
    values = {name: getattr(config, name) for name in type(config).model_fields}
    plain = (bool, int, float, str)
    return {
        name: value if isinstance(value, plain) else type(value).__name__
        for name, value in values.items()
        if value is not None
    }


def _node(node: _adk.Node) -> dict[str, Any]:
    description: dict[str, Any] = {
        "name": node.name,
        "type": type(node).__name__,
        "description": node.description,
    }
    if isinstance(node, BaseAgent):
        description["sub_agents"] = [_node(agent) for agent in node.sub_agents]
        description["callbacks"] = _callbacks(node, AGENT_CALLBACKS)
    if isinstance(node, LlmAgent):
        description |= _llm_agent(node)
        description["callbacks"] |= _callbacks(node, LLM_CALLBACKS)
    if isinstance(node, LoopAgent):
        description["max_iterations"] = node.max_iterations
    if isinstance(node, Workflow) and node.graph is not None:
        description["nodes"] = [_node(child) for child in node.graph.nodes]
        description["edges"] = [
            {"from": edge.from_node.name, "to": edge.to_node.name, "route": edge.route}
            for edge in node.graph.edges
        ]
    return description


def _llm_agent(agent: LlmAgent) -> dict[str, Any]:
    return {
        "model": agent.model if isinstance(agent.model, str) else agent.model.model,
        **_instruction("instruction", agent.instruction),
        **_instruction("global_instruction", agent.global_instruction),
        "static_instruction": _text_of(agent.static_instruction),
        "tools": [_tool(tool) for tool in agent.tools],
        "output_key": agent.output_key or "",
        "mode": agent.mode or "",
    }


def _instruction(name: str, given: str | Callable[..., Any]) -> dict[str, str]:
    if isinstance(given, str):
        return {name: given}
    return {name: "", f"{name}_provider": _name_of(given)}


def _text_of(content: Any) -> str:
    """Return the text of a `ContentUnion`."""
    if isinstance(content, types.Content):
        return "\n".join(part.text for part in content.parts or [] if part.text)
    return content if isinstance(content, str) else ""


def _callbacks(agent: BaseAgent, hooks: Iterable[str]) -> dict[str, list[str]]:
    given = {hook: getattr(agent, hook) for hook in hooks if getattr(agent, hook)}
    return {
        hook: [_name_of(callback) for callback in (found if isinstance(found, list) else [found])]
        for hook, found in given.items()
    }


def _tool(given: Any) -> dict[str, Any]:
    if isinstance(given, BaseToolset):
        return {
            "name": type(given).__name__,
            "type": "toolset",
            "description": "Its tools are known when it runs.",
        }
    if not isinstance(given, BaseTool | _adk.Node):
        given = FunctionTool(given)
    if not isinstance(given, BaseTool):
        return {"name": given.name, "type": type(given).__name__, "description": given.description}
    return {
        "name": given.name,
        "type": type(given).__name__,
        "description": given.description,
        "long_running": given.is_long_running,
        "schema": _schema(given),
        "response_schema": _response_schema(given),
    }


def _schema(tool: BaseTool) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments; empty when the tool cannot say it."""
    try:
        declaration = _adk.declaration_of(tool)
    except Exception:
        return {}  # some tools of ADK and others need a model or a connection for it
    if declaration is None:
        return {}
    if declaration.parameters_json_schema:
        return dict(declaration.parameters_json_schema)
    if declaration.parameters is None:
        return {}
    return declaration.parameters.model_dump(mode="json", exclude_none=True, by_alias=True)


def _response_schema(tool: BaseTool) -> dict[str, Any]:
    """Return the JSON schema of what a long-running function returns, which somebody else may have to say.

    Empty when its annotation says nothing of use.
    """
    if not isinstance(tool, FunctionTool) or not tool.is_long_running:
        return {}
    try:
        returned = get_type_hints(tool.func).get("return")
        schema = TypeAdapter(returned).json_schema() if returned not in {None, Any} else {}
    except Exception:
        return {}  # annotations may name anything
    return {} if schema.get("type") == "object" and not schema.get("properties") else schema


def _name_of(given: Any) -> str:
    return str(getattr(given, "__name__", type(given).__name__))
