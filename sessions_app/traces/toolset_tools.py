"""Tools of toolsets, as the recorder saw them in the newest model request of their agent.

A toolset lists its tools only when it runs. The recorded request of an agent declares all of its tools; those that the
agent's description does not name come from its toolsets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import OuterRef, Subquery

from sessions_app.agents.cards import TOOLS_OF_ADK, is_toolset, iter_agents
from sessions_app.agents.page.description import Node, prepare_description
from sessions_app.store.models import AgentSession, ModelCall
from sessions_app.traces.lost_toolsets import read_lost_toolsets
from sessions_app.traces.model_calls import read_request

MAX_AGENTS = 20
"""Agents whose newest request is read."""


@dataclass(frozen=True, slots=True)
class SeenTools:
    """The tools of an agent's toolsets in its newest model request.

    Attributes:
        tools: name, description and schema of each tool.
        failures: toolsets that failed to load for this request, each with its error.
    """

    call: ModelCall
    tools: list[dict[str, Any]]
    failures: list[str]


@dataclass(frozen=True, slots=True)
class CallableTool:
    """A tool as its page shows it.

    Attributes:
        agent: name of its agent.
        schema: JSON schema of its arguments; empty: it declares none.
        refusal: why it cannot be called by itself; empty: it can.
    """

    name: str
    agent: str
    description: str
    schema: dict[str, Any]
    refusal: str = ""


def find_callable_tool(
    description: Node, sessions: Sequence[AgentSession], name: str, agent: str = ""
) -> CallableTool | None:
    """Return the tool of this name in an app's description, or in its toolsets as far as they were seen; or None.

    Args:
        description: the app's description.
        sessions: the sessions in which toolsets were seen.
        name: name of the tool.
        agent: name of its agent; empty: the first agent that has it.
    """
    tree = prepare_description(description)
    add_seen_tools(tree, sessions)
    nodes = [node for node in iter_agents(tree) if agent in {"", node["name"]}]
    matches = (
        CallableTool(
            name, node["name"], tool["description"], tool.get("schema") or {}, tool.get("refusal", "")
        )
        for node in nodes
        for tool in _iter_tools(node)
        if tool["name"] == name
    )
    return next(matches, None)


def _iter_tools(node: Node) -> Iterator[dict[str, Any]]:
    """Yield the tools of an agent, then those that were seen of its toolsets."""
    yield from (tool for tool in node["tools"] if not is_toolset(tool))
    for source in (node, *node["tools"]):
        if source.get("seen"):
            yield from source["seen"].tools


def add_seen_tools(tree: Node, sessions: Sequence[AgentSession]) -> None:
    """Set `seen` of the toolsets in a prepared description, as of these sessions.

    Tools that could belong to several toolsets are set at the agent instead.
    """
    nodes = [node for node in iter_agents(tree) if any(map(is_toolset, node["tools"]))]
    for node in nodes[:MAX_AGENTS]:
        if call := _newest_call([session.pk for session in sessions], node["name"]):
            _set_seen(node, call)


def _newest_call(session_pks: Collection[int], agent: str) -> ModelCall | None:
    """Return the newest model call of an agent in some sessions. Two queries."""
    newest = ModelCall.objects.filter(session=OuterRef("pk"), agent=agent).order_by("-pk").values("pk")[:1]
    rows = AgentSession.objects.filter(pk__in=session_pks).annotate(call=Subquery(newest))
    pks = [pk for pk in rows.values_list("call", flat=True) if pk is not None]
    return ModelCall.objects.select_related("session").filter(pk=max(pks)).first() if pks else None


def _set_seen(node: Node, call: ModelCall) -> None:
    toolsets = [tool for tool in node["tools"] if is_toolset(tool)]
    described_names = {tool["name"] for tool in node["tools"]} | TOOLS_OF_ADK
    tools = [
        _describe_tool(tool)
        for tool in read_request(call).tools
        if tool.get("name") not in {None, *described_names}
    ]
    lines = read_lost_toolsets([(call.session_id, call.invocation_id)])
    failures = [
        line
        for line in lines.get((call.session_id, call.invocation_id), ())
        if f" of agent {node['name']}: " in line
    ]
    for toolset in toolsets:
        prefix = f"{toolset['prefix']}_" if toolset.get("prefix") else ""
        toolset_tools = [tool for tool in tools if prefix and tool["name"].startswith(prefix)]
        tools = [tool for tool in tools if tool not in toolset_tools]
        own_failures = [line for line in failures if _names_toolset(toolset, line)]
        toolset["seen"] = (
            SeenTools(call, toolset_tools, own_failures) if toolset_tools or own_failures else None
        )
    unassigned = [toolset for toolset in toolsets if not toolset.get("prefix") and not toolset["seen"]]
    if tools and len(unassigned) == 1:
        unassigned[0]["seen"] = SeenTools(call, tools, [])
    elif tools:
        node["seen"] = SeenTools(call, tools, [])


def _names_toolset(toolset: Node, line: str) -> bool:
    """Return whether a line names this toolset: by its class and its MCP server."""
    server = (toolset.get("settings") or {}).get("server")
    return line.startswith(toolset["name"]) and (not server or f" ({server}) of agent " in line)


def _describe_tool(declaration: dict[str, Any]) -> dict[str, Any]:
    schema = declaration.get("parametersJsonSchema") or declaration.get("parameters")
    return {
        "name": str(declaration["name"]),
        "description": str(declaration.get("description") or ""),
        "schema": schema if isinstance(schema, dict) else None,
    }
