"""Agent cards of remote servers, as far as ADK's REST API describes agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from devui.remote.dialects import Dialect
from devui.remote.http_client import RemoteHttpClient
from devui.remote.responses import error_text
from sessions_app.agents.remotes import Remote
from sessions_app.store.text_input import parse_json

MAX_AGENTS = 300
"""Most agents of a description; agents that others refer to by name could repeat without end."""

CUSTOM_METADATA = {
    "type": "object",
    "properties": {
        "custom_metadata": {
            "type": "object",
            "title": "Custom metadata",
            "description": "Metadata that ADK adds to the events of the run.",
        }
    },
}
"""The only field of ADK's RunConfig that a REST API accepts."""

Node = dict[str, Any]


async def fetch_description(
    http: RemoteHttpClient, app: str, remote: Remote, dialect: Dialect
) -> tuple[Node, Node]:
    """Return an app's agent description (see `AgentCard`), and the error of a failed load; one of them is empty.

    Raises:
        NotReached: the server does not answer.
    """
    problem = ""
    run_config = CUSTOM_METADATA if "customMetadata" in dialect.run_fields else {}
    facts: Node = {"code": {"adk": remote.version}, "run_config": run_config}
    for path, read in (
        ("/apps/{}/app-info", _read_app_info),
        ("/dev/apps/{}/build_graph", _read_build_graph),
    ):
        answer = await http.ask("GET", path.format(quote(app, safe="")))
        message = error_text(answer.body) if not answer.is_success else ""
        if answer.status == 500 and "load" in message.lower():
            return {}, {"type": "RemoteError", "message": message, "file": "", "line": None, "traceback": ""}
        tree = read(_parse_card(answer.body)) if answer.is_success else None
        if tree:
            return facts | tree, {}
        problem = problem or message
    what = "This remote server describes its agents only by their names"
    explanation = f"{what}: {problem}" if problem else f"{what}."
    return {"name": app, "type": "", "description": "", "problem": explanation, **facts}, {}


def _read_app_info(info: Any) -> Node | None:
    """Return the agent tree of `/apps/{app}/app-info` (`google.adk.cli.api_server.AppInfo`)."""
    if not isinstance(info, dict):
        return None
    agents, root = info.get("agents"), info.get("rootAgentName", info.get("root_agent_name"))
    return _Tree(agents).node(root) if isinstance(agents, dict) and isinstance(root, str) else None


def _read_build_graph(graph: Any) -> Node | None:
    """Return the agent tree of `/dev/apps/{app}/build_graph`."""
    return _Tree({}).node(graph.get("root_agent")) if isinstance(graph, dict) else None


class _Tree:
    """Builder of a bounded agent tree. `agents` are the agents that others refer to by name."""

    def __init__(self, agents: Mapping[str, Any]) -> None:
        self._agents = agents
        self._count = 0

    def node(self, info: Any, above: tuple[str, ...] = ()) -> Node | None:
        """Return the node of an agent, given as an object or by name; None if it is invalid or beyond the limits."""
        is_name = isinstance(info, str)
        if is_name and isinstance(self._agents.get(info), dict):
            info = {"type": "LlmAgent", **self._agents[info], "name": info}
        if not isinstance(info, dict) or not isinstance(info.get("name"), str):
            return None
        if self._count >= MAX_AGENTS:
            return None
        self._count += 1
        name, description = _text_or_empty(info["name"]), _text_or_empty(info.get("description"))
        node: Node = {"name": name, "type": _text_or_empty(info.get("type", "")), "description": description}
        if is_name and name in above:
            return {**node, "again": True}
        if instruction := _text_or_empty(info.get("instruction")):
            node["instruction"] = instruction
        if model := _text_or_empty(info.get("model")):
            node["model"] = model
        below = info.get("subAgents", info.get("sub_agents"))
        children = (
            [self.node(child_json, (*above, name)) for child_json in below] if isinstance(below, list) else []
        )
        tools = _read_tools(info.get("tools"))
        return {**node, "tools": tools, "sub_agents": [child for child in children if child]}


def _read_tools(listed: Any) -> list[Node]:
    """Return tools in each of ADK's forms: names, objects, or function declarations inside a tool."""
    tools: list[Node] = []
    for tool in listed if isinstance(listed, list) else []:
        if isinstance(tool, str):
            tools.append({"name": _text_or_empty(tool), "type": "", "description": ""})
        if not isinstance(tool, dict):
            continue
        declared = tool.get("functionDeclarations", tool.get("function_declarations"))
        for declaration in declared if isinstance(declared, list) else [tool]:
            if isinstance(declaration, dict) and declaration.get("name"):
                schema = (
                    declaration.get("parametersJsonSchema")
                    or declaration.get("parameters")
                    or declaration.get("schema")
                )
                tools.append(
                    {
                        "name": _text_or_empty(declaration["name"]),
                        "type": _text_or_empty(declaration.get("type", "")),
                        "description": _text_or_empty(declaration.get("description")),
                        **({"schema": schema} if isinstance(schema, dict) else {}),
                    }
                )
    return tools


def _text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _parse_card(body: bytes) -> Any:
    try:
        return parse_json(body)
    except (ValueError, RecursionError):
        return None
