"""Walks over a tree of agents: sub-agents, agents that are tools, and agents that custom classes hold in fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from google.adk.agents.base_agent import BaseAgent
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.workflow import BaseNode

from evals_app.execution._adk import Agent

Node = TypeVar("Node", bound=BaseNode)


def iter_agents(root: BaseAgent) -> Iterator[BaseAgent]:
    """Yield each agent of a tree once, without the nodes of workflows."""
    yield from _iter_tree(root, _list_agents_below)


def iter_nodes(root: BaseNode) -> Iterator[BaseNode]:
    """Yield each agent of a tree and each node of workflows in it once."""
    yield from _iter_tree(root, _list_nodes_below)


def iter_tools(root: Agent) -> Iterator[Any]:
    """Yield the tools of the agents of a tree, and of the nodes of workflows in it."""
    for node in _iter_tree(root, _list_nodes_below):
        yield from _list_tools(node)


def read_tool_name(tool: Any) -> str:
    """Return the name of a tool of an agent; "" for a toolset, whose tools are known only while the agent runs."""
    if isinstance(tool, BaseTool):
        return tool.name
    return FunctionTool(func=tool).name if callable(tool) else ""


def read_field_values(node: BaseNode) -> dict[str, Any]:
    """Return the fields and private attributes in which a custom class may hold agents."""
    fields = {name: value for name, value in node if name not in {"sub_agents", "parent_agent", "tools"}}
    return fields | (node.__pydantic_private__ or {})


def list_agents(value: Any) -> list[BaseAgent]:
    """Return the agents in the value of a field: the value itself, or items of a list or tuple."""
    values = value if isinstance(value, list | tuple) else [value]
    return [item for item in values if isinstance(item, BaseAgent)]


def _iter_tree(root: Node, list_below: Callable[[Node], Iterable[Node]]) -> Iterator[Node]:
    seen: set[int] = set()
    queue = [root]
    while queue:
        node = queue.pop(0)
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            queue += list_below(node)


def _list_agents_below(node: BaseNode) -> list[BaseAgent]:
    agents = [*(getattr(node, "sub_agents", None) or ())]
    agents += [tool.agent for tool in _list_tools(node) if isinstance(tool, AgentTool)]
    return agents + [agent for value in read_field_values(node).values() for agent in list_agents(value)]


def _list_nodes_below(node: BaseNode) -> list[BaseNode]:
    graph = getattr(node, "graph", None)
    graph_nodes = graph.nodes if graph is not None else ()
    node_tools = [tool for tool in _list_tools(node) if isinstance(tool, BaseNode)]
    return [*_list_agents_below(node), *graph_nodes, *node_tools]


def _list_tools(node: BaseNode) -> list[Any]:
    return getattr(node, "tools", None) or []
