"""Tools of an app's agents by name, those of toolsets included, and their arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool

from devui.runtime import _adk
from devui.runtime.agent_description import read_schema
from devui.runtime.exception_text import safe_message
from evals_app.execution.agent_tree import iter_nodes
from sessions_app.problems.argument_schema import require_accepted
from sessions_app.store.errors import BadInput, NotFound
from sessions_app.store.short_texts import join_names

MAX_NAMES = 20
"""Tools that an error lists."""

FoundTool = tuple[LlmAgent, BaseTool]


def list_candidates(root: _adk.Node, agent_name: str) -> list[LlmAgent]:
    """Return the agents of an app that may have a tool: the one of this name, or all if the name is empty.

    Raises:
        NotFound: the app has no LLM agent of this name.
    """
    agents = [node for node in iter_nodes(root) if isinstance(node, LlmAgent)]
    named = [agent for agent in agents if agent_name in {"", agent.name}]
    if not named:
        raise NotFound(
            f"The app has no LLM agent {agent_name!r}.",
            hint=f"Its agents: {join_names([agent.name for agent in agents], MAX_NAMES) or 'none'}.",
        )
    return named


async def find_tool(
    agents: Sequence[LlmAgent], name: str, make_context: Callable[[LlmAgent], InvocationContext]
) -> FoundTool:
    """Return the tool of this name with its agent. Toolsets are asked only if no agent has the tool itself.

    Raises:
        NotFound: no agent has it.
        BadInput: several agents have a tool of this name, or the tool cannot be called by itself.
    """
    listed = [
        (agent, _as_tool(tool))
        for agent in agents
        for tool in agent.tools
        if not isinstance(tool, BaseToolset)
    ]
    matches = [(agent, tool) for agent, tool in listed if _tool_name(tool) == name]
    names = [_tool_name(tool) for _, tool in listed]
    failures: list[str] = []
    if not matches:
        for agent in agents:
            for toolset in (tool for tool in agent.tools if isinstance(tool, BaseToolset)):
                tools = await _list_toolset(toolset, agent, make_context, failures)
                names += [tool.name for tool in tools]
                matches += [(agent, tool) for tool in tools if tool.name == name]
    if not matches:
        raise NotFound(
            " ".join([f"No tool {name!r}.", *failures]),
            hint=f"The tools here: {join_names(names, MAX_NAMES) or 'none'}.",
        )
    if len({agent.name for agent, _ in matches}) > 1:
        owners = join_names([agent.name for agent, _ in matches], MAX_NAMES)
        raise BadInput(f"Several agents have a tool {name!r}: {owners}.", hint="Name the agent.")
    agent, tool = matches[0]
    return agent, _require_callable(tool)


def check_arguments(tool: BaseTool, args: Mapping[str, Any]) -> None:
    """Refuse arguments that the tool's schema does not accept.

    Raises:
        BadInput: names the argument, the rule and the tool's parameters; or the model carries out the tool.
    """
    try:
        declaration = _adk.get_declaration(tool)
    except Exception as error:
        raise BadInput(
            f"{tool.name} cannot declare its parameters: {type(error).__name__}: {safe_message(error)}",
            hint="Correct its annotations: a model could not call it either.",
        ) from error
    if declaration is None:
        raise BadInput(
            f"{tool.name} has no declaration: the model or the server of the model carries it out.",
            hint="Send a message to the agent, and look at the model call.",
        )
    require_accepted(tool.name, args, read_schema(declaration))


def _as_tool(tool: Any) -> BaseTool | _adk.Node:
    return tool if isinstance(tool, BaseTool | _adk.Node) else FunctionTool(tool)


def _tool_name(tool: BaseTool | _adk.Node) -> str:
    return str(tool.name)


def _require_callable(tool: BaseTool | _adk.Node) -> BaseTool:
    if isinstance(tool, AgentTool) or not isinstance(tool, BaseTool):
        raise BadInput(
            f"{tool.name} runs an agent, which calls models and needs a session.",
            hint="Send a message to the agent instead.",
        )
    if isinstance(tool, FunctionTool) and _is_generator(tool.func):
        raise BadInput(
            f"{tool.name} is a generator, which ADK runs as a node of a run.",
            hint="Send a message to the agent that makes it call the tool.",
        )
    return tool


def _is_generator(function: Callable[..., Any]) -> bool:
    target = inspect.unwrap(function)
    return inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target)


async def _list_toolset(
    toolset: BaseToolset,
    agent: LlmAgent,
    make_context: Callable[[LlmAgent], InvocationContext],
    failures: list[str],
) -> list[BaseTool]:
    """Return the tools of a toolset. If it fails, add the error to `failures`: another toolset may have the tool."""
    try:
        return await toolset.get_tools_with_prefix(ReadonlyContext(make_context(agent)))
    except Exception as error:
        reason = f"{type(error).__name__}: {safe_message(error)}"
        failures.append(f"{type(toolset).__name__} of {agent.name} could not list its tools: {reason}.")
        return []
