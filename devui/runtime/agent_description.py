"""Description of an app's agents as plain JSON, for the agent page.

The agent's code is not called: toolsets are named but not resolved (that may start a server), instruction providers
are named but not called. Reading an attribute of an agent may still raise: its description then contains the error.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App
from google.adk.models.base_llm import BaseLlm
from google.adk.planners import BasePlanner
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.workflow import FunctionNode, Workflow
from google.genai import types
from pydantic import BaseModel

from devui.runtime import _adk
from devui.runtime.code_locations import CodeLocation, CodeLocator
from devui.runtime.described_settings import (
    GLOBAL_INSTRUCTION,
    find_cautions,
    list_fallbacks,
    read_confirmation,
    read_schemas,
    read_settings,
    read_skills,
)
from devui.runtime.guarded_reads import call_or, callable_name, truncate
from sessions_app.adk.lost_toolsets import find_mcp_server
from sessions_app.adk.sequence_agents import LOOP_AGENTS
from sessions_app.store.redaction import redact_texts

AGENT_CALLBACKS = ("before_agent_callback", "after_agent_callback")
LLM_CALLBACKS = (
    "before_model_callback",
    "after_model_callback",
    "on_model_error_callback",
    "before_tool_callback",
    "after_tool_callback",
    "on_tool_error_callback",
)
SETTINGS = (
    "include_contents",
    "disallow_transfer_to_parent",
    "disallow_transfer_to_peers",
    "parallel_worker",
    "planner",
    "code_executor",
    "input_schema",
    "output_schema",
    "state_schema",
    "max_concurrency",
    "max_parallel_workers",
    "timeout",
    "retry_config",
    "rerun_on_resume",
    "wait_for_output",
)
"""Fields of agents and nodes that are described if they differ from ADK's default."""

UNSHOWN_CONFIG = frozenset({"http_options", "tools"})
"""Fields of a model's config that are left out: headers may contain keys; tools are described with the agent."""

TOOL_FACTS = frozenset({"name", "description", "is_long_running", "func", "agent", "custom_metadata"})
"""Attributes of tools that are no settings: they are described by themselves."""

TOOLSET_FACTS = frozenset({"tool_filter", "tool_name_prefix"})

MAX_NODES = 300
"""Most agents and nodes that are described; further ones are only named."""

MAX_TEXT = 30_000
"""Most characters of a description, an instruction or a schema."""


def describe(
    root: _adk.Node, app: App | None, app_name: str, locator: CodeLocator | None = None
) -> dict[str, Any]:
    """Return the tree of agents, with the settings of the app under `app`.

    An agent has name, type, description, at ({file, line} of its definition), is_custom, settings, schemas {field: JSON
    schema}, cautions (`find_cautions`), sub_agents and callbacks {hook: [{name, at}]}; an LLM agent also model,
    model_from (the source of an inherited model), fallbacks (models that are tried in order), model_config, instruction
    (text) or instruction_provider (name) with instruction_provider_at, the same for global_instruction,
    static_instruction, tools [{name, type, description, long_running, context, confirmation, settings, cautions, at,
    schema, agent, by_the_model}], output_key and mode. A toolset among the tools has prefix, settings and skills
    (`read_skills`); a workflow has nodes and edges. `again` marks an agent inside itself; `problem` is the error of an
    agent that cannot be read.
    """
    working_folder = Path.cwd()
    describer = _Describer(locator or CodeLocator(working_folder, working_folder))
    description = {**describer.node(root), "app": describer.app(app, app_name)}
    plain: dict[str, Any] = json.loads(json.dumps(description, default=repr))
    return plain


class _Describer:
    """Describes the agents of one app, and the app."""

    def __init__(self, locator: CodeLocator) -> None:
        self.locator = locator
        self.nodes = 0
        self.above: list[int] = []

    def node(self, node: Any, model: str = "") -> dict[str, Any]:
        """Return the description of an agent or node and of its children; `model` is the inherited model."""
        self.nodes += 1
        data: dict[str, Any] = {"name": "", "type": type(node).__name__, "description": ""}
        try:
            data["name"] = node.name
            data["description"] = truncate(node.description, MAX_TEXT)
            if id(node) in self.above:
                return {**data, "again": True}
            if self.nodes > MAX_NODES:
                return {
                    **data,
                    "problem": f"Not described: the app has more than {MAX_NODES} agents and nodes.",
                }
            self.above.append(id(node))
            try:
                self._fill_node(node, data, model)
            finally:
                self.above.pop()
        except Exception as error:
            data["problem"] = f"{type(error).__name__}: {error}"
        return data

    def app(self, app: App | None, app_name: str) -> dict[str, Any]:
        """Return the settings of an app."""
        if app is None:
            return {"name": app_name, "is_app": False}
        resumability = app.resumability_config
        return {
            "name": app.name,
            "is_app": True,
            "plugins": [self._describe_plugin(plugin) for plugin in app.plugins],
            "resumable": bool(resumability and resumability.is_resumable),
            "context_cache": _dump_config(app.context_cache_config),
            "compaction": _dump_config(app.events_compaction_config),
            "cautions": find_cautions(
                [resumability, app.context_cache_config, app.events_compaction_config, *app.plugins]
            ),
        }

    def _fill_node(self, node: Any, data: dict[str, Any], model: str) -> None:
        data["at"] = self._locate_node(node)
        data["settings"] = _changed_settings(node)
        data["schemas"] = read_schemas(node)
        data["cautions"] = find_cautions([node, *(getattr(node, name, None) for name in SETTINGS)])
        if not _is_adk(type(node)):
            data["is_custom"] = True
        if isinstance(node, LlmAgent):
            data |= self._llm_agent(node, model)
            data["cautions"] += _find_field_cautions(node)
            model = "" if data["model_from"] == "ADK's default" else data["model"]
        if isinstance(node, BaseAgent):
            hooks = (*AGENT_CALLBACKS, *(LLM_CALLBACKS if isinstance(node, LlmAgent) else ()))
            data["callbacks"] = self._describe_callbacks(node, hooks)
            data["sub_agents"] = [self.node(child, model) for child in node.sub_agents]
        if isinstance(node, FunctionNode):
            data["context"] = _adk.node_context_parameter(node)
            data["confirmation"] = read_confirmation(node)
        if isinstance(node, LOOP_AGENTS):
            data["max_iterations"] = getattr(node, "max_iterations", None)
        if isinstance(node, Workflow) and node.graph is not None:
            data["nodes"] = [self.node(child, model) for child in node.graph.nodes]
            data["edges"] = [
                {"from": edge.from_node.name, "to": edge.to_node.name, "route": edge.route}
                for edge in node.graph.edges
            ]

    def _locate_node(self, node: Any) -> CodeLocation:
        if isinstance(node, FunctionNode):
            return self.locator.locate_code(_adk.get_node_function(node))
        return self.locator.locate_agent(node.name, node)

    def _llm_agent(self, agent: LlmAgent, inherited: str) -> dict[str, Any]:
        model_name = agent.model if isinstance(agent.model, str) else agent.model.model
        return {
            "model": model_name or inherited or _adk.default_model(),
            "model_from": "" if model_name else "the agent above" if inherited else "ADK's default",
            "model_type": "" if isinstance(agent.model, str) else type(agent.model).__name__,
            "fallbacks": list_fallbacks(agent.model),
            "live": call_or(lambda: type(agent.canonical_live_model).connect is not BaseLlm.connect, False),
            "model_config": _config_json(agent.generate_content_config),
            **self._describe_instruction("instruction", agent.instruction),
            **self._describe_instruction("global_instruction", agent.global_instruction),
            "static_instruction": truncate(content_union_text(agent.static_instruction), MAX_TEXT),
            "tools": [self._describe_tool(tool, model_name or inherited) for tool in agent.tools],
            "output_key": agent.output_key or "",
            "mode": agent.mode or "",
        }

    def _describe_instruction(self, name: str, instruction: str | Callable[..., Any]) -> dict[str, Any]:
        if isinstance(instruction, str):
            return {name: truncate(instruction, MAX_TEXT)}
        return {
            name: "",
            f"{name}_provider": callable_name(instruction),
            f"{name}_provider_at": self.locator.locate_code(instruction),
        }

    def _describe_callbacks(self, agent: BaseAgent, hooks: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
        callbacks = {hook: value for hook in hooks if (value := getattr(agent, hook))}
        return {
            hook: [
                {"name": callable_name(callback), "at": self.locator.locate_code(callback)}
                for callback in (value if isinstance(value, list) else [value])
            ]
            for hook, value in callbacks.items()
        }

    def _describe_tool(self, tool: Any, model: str) -> dict[str, Any]:
        try:
            return self._tool_data(tool, model)
        except Exception as error:
            return {
                "name": callable_name(tool),
                "type": type(tool).__name__,
                "description": "",
                "problem": f"{type(error).__name__}: {error}",
            }

    def _tool_data(self, source: Any, model: str) -> dict[str, Any]:
        if isinstance(source, BaseToolset):
            return {
                "name": type(source).__name__,
                "type": "toolset",
                "description": "Its tools are known when it runs.",
                "at": self.locator.locate_class(type(source)),
                "prefix": source.tool_name_prefix or "",
                "confirmation": read_confirmation(source),
                "settings": _toolset_settings(source),
                "skills": read_skills(source),
                "cautions": find_cautions([source]),
            }
        if isinstance(source, _adk.Node):
            agent = self.node(source, model)
            return {**{key: agent[key] for key in ("name", "type", "description")}, "agent": agent}
        tool = source if isinstance(source, BaseTool) else FunctionTool(source)
        return {
            "name": tool.name,
            "type": type(tool).__name__,
            "description": truncate(tool.description, MAX_TEXT),
            "long_running": bool(tool.is_long_running),
            "context": _adk.tool_context_parameter(tool),
            "confirmation": read_confirmation(tool),
            "settings": read_settings(tool, TOOL_FACTS),
            "cautions": find_cautions([tool]),
            "at": self.locator.locate_code(tool.func if isinstance(tool, FunctionTool) else tool),
            "schema": _tool_schema(tool),
            **({"by_the_model": True} if _is_undeclared(tool) else {}),
            **({"agent": self.node(tool.agent, model)} if isinstance(tool, AgentTool) else {}),
        }

    def _describe_plugin(self, plugin: BasePlugin) -> dict[str, Any]:
        cls = type(plugin)
        return {
            "name": plugin.name,
            "type": cls.__name__,
            "at": self.locator.locate_class(cls),
            "settings": read_settings(plugin, frozenset({"name"})),
            "hooks": [
                name for name in PLUGIN_HOOKS if getattr(cls, name, None) is not getattr(BasePlugin, name)
            ],
        }


PLUGIN_HOOKS = tuple(
    name
    for name, value in vars(BasePlugin).items()
    if name.endswith("_callback") and inspect.isfunction(value)
)


def _find_field_cautions(agent: LlmAgent) -> list[dict[str, str]]:
    model = [] if isinstance(agent.model, str) else find_cautions([agent.model])
    return [
        *model,
        *([{"stage": "deprecated", "text": GLOBAL_INSTRUCTION}] if agent.global_instruction else []),
    ]


def _is_adk(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "google"


def _dump_config(config: BaseModel | None) -> dict[str, Any] | None:
    """Return the values of a config; objects are replaced by the names of their types."""
    if config is None:
        return None
    values = {name: getattr(config, name) for name in type(config).model_fields}
    return {name: _plain_value(value) for name, value in values.items() if value is not None}


def _plain_value(value: Any) -> Any:
    if isinstance(value, str | bool | int | float):
        return value
    return value.__name__ if isinstance(value, type) else type(value).__name__


def _changed_settings(node: Any) -> dict[str, Any]:
    """Return the fields of an agent that differ from their defaults."""
    fields = type(node).model_fields
    settings: dict[str, Any] = {}
    for name in SETTINGS:
        value = getattr(node, name) if name in fields else None
        if value is not None and value != fields[name].default:
            settings[name] = _setting_json(value)
    return settings


def _setting_json(value: Any) -> Any:
    """Return a setting as JSON. Planners, code executors and configs become their type with the fields that are set."""
    if isinstance(value, BasePlanner):
        fields = vars(value)
    elif isinstance(value, BaseModel):
        defaults = type(value).model_fields
        fields = {
            name: field for name in defaults if (field := getattr(value, name)) != defaults[name].default
        }
    else:
        return _plain_value(value)
    fields_set = {
        name: field.model_dump(mode="json", exclude_none=True) if isinstance(field, BaseModel) else field
        for name, field in fields.items()
        if isinstance(field, BaseModel | str | bool | int | float)
    }
    return redact_texts({"type": type(value).__name__, **fields_set}) if fields_set else type(value).__name__


def _toolset_settings(toolset: BaseToolset) -> dict[str, Any]:
    """Return the settings of a toolset with its server, filter and environment, without credentials."""
    environment, folder = _adk.get_environment(toolset)
    settings = {
        **read_settings(toolset, TOOLSET_FACTS),
        "server": find_mcp_server(toolset),
        "tool_filter": toolset.tool_filter if isinstance(toolset.tool_filter, list) else None,
        "environment": environment,
        "working_dir": folder,
    }
    return {name: value for name, value in settings.items() if value}


def _config_json(config: types.GenerateContentConfig | None) -> dict[str, Any]:
    if config is None:
        return {}
    dumped = config.model_dump(mode="json", exclude_none=True, exclude=set(UNSHOWN_CONFIG))
    return {**dumped, **{name: "set" for name in UNSHOWN_CONFIG if getattr(config, name)}}


def content_union_text(content: Any) -> str:
    """Return the text of a `ContentUnion`."""
    if isinstance(content, types.Content):
        return "\n".join(part.text for part in content.parts or [] if part.text)
    return content if isinstance(content, str) else ""


def _is_undeclared(tool: BaseTool) -> bool:
    """Tell whether a tool has no declaration: the model or its server carries it out."""
    return call_or(lambda: _adk.get_declaration(tool) is None, False)


def _tool_schema(tool: BaseTool) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments; empty if the tool has none."""
    try:
        declaration = _adk.get_declaration(tool)
    except Exception:
        return {}  # some tools need a model or a connection to declare themselves
    return read_schema(declaration) if declaration else {}


def read_schema(declaration: types.FunctionDeclaration) -> dict[str, Any]:
    """Return the JSON schema of the arguments that a declaration names; empty if it names none."""
    if declaration.parameters_json_schema:
        return dict(declaration.parameters_json_schema)
    if declaration.parameters is None:
        return {}
    return declaration.parameters.model_dump(mode="json", exclude_none=True, by_alias=True)
