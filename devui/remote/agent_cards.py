"""Agent cards of remote servers, as far as ADK's REST API describes agents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from devui.remote.dialects import Dialect
from devui.remote.http_client import RemoteHttpClient
from devui.remote.responses import error_text
from sessions_app.agents.remotes import Remote

MAX_AGENTS = 300
MAX_DEPTH = 20
MAX_TOOLS = 100
MAX_NAME = 300
MAX_TEXT = 30_000

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
        ("/apps/{}/app-info", _tree_of_app_info),
        ("/dev/apps/{}/build_graph", _tree_of_build_graph),
    ):
        answer = await http.ask("GET", path.format(quote(app, safe="")))
        message = error_text(answer.body) if not answer.is_success else ""
        if answer.status == 500 and "load" in message.lower():
            return {}, {"type": "RemoteError", "message": message, "file": "", "line": None, "traceback": ""}
        tree = read(_parse_json(answer.body)) if answer.is_success else None
        if tree:
            return facts | tree, {}
        problem = problem or message
    what = "This remote server describes its agents only by their names"
    explanation = f"{what}: {problem}" if problem else f"{what}."
    return {"name": app, "type": "", "description": "", "problem": explanation, **facts}, {}


def _tree_of_app_info(info: Any) -> Node | None:
    """Return the agent tree of `/apps/{app}/app-info` (`google.adk.cli.api_server.AppInfo`)."""
    if not isinstance(info, dict):
        return None
    agents, root = info.get("agents"), info.get("rootAgentName", info.get("root_agent_name"))
    if not isinstance(agents, dict) or not isinstance(root, str):
        return None
    count = [0]
    return _node_of_list(agents, root, count, ())


def _node_of_list(
    agents: Mapping[str, Any], name: str, count: list[int], above: tuple[str, ...]
) -> Node | None:
    info = agents.get(name)
    if not isinstance(info, dict) or count[0] >= MAX_AGENTS or len(above) >= MAX_DEPTH:
        return None
    count[0] += 1
    node = {"name": _name(name), "type": "LlmAgent", "description": _text(info.get("description"))}
    if name in above:
        return {**node, "again": True}
    if instruction := _text(info.get("instruction")):
        node["instruction"] = instruction
    below = info.get("subAgents", info.get("sub_agents"))
    children = (
        [_node_of_list(agents, str(each), count, (*above, name)) for each in below or []]
        if isinstance(below, list)
        else []
    )
    return {**node, "tools": _tools(info.get("tools")), "sub_agents": [each for each in children if each]}


def _tree_of_build_graph(graph: Any) -> Node | None:
    """Return the agent tree of `/dev/apps/{app}/build_graph`."""
    root = graph.get("root_agent") if isinstance(graph, dict) else None
    return _node_of_tree(root, [0], 0) if isinstance(root, dict) else None


def _node_of_tree(info: Mapping[str, Any], count: list[int], depth: int) -> Node | None:
    if count[0] >= MAX_AGENTS or depth >= MAX_DEPTH or not isinstance(info.get("name"), str):
        return None
    count[0] += 1
    node: Node = {
        "name": _name(info["name"]),
        "type": _name(info.get("type", "")),
        "description": _text(info.get("description")),
        "tools": _tools(info.get("tools")),
    }
    if instruction := _text(info.get("instruction")):
        node["instruction"] = instruction
    if model := info.get("model"):
        node["model"] = _name(model)
    below = info.get("sub_agents")
    below = [each for each in below if isinstance(each, dict)] if isinstance(below, list) else []
    return {
        **node,
        "sub_agents": [child for each in below if (child := _node_of_tree(each, count, depth + 1))],
    }


def _tools(listed: Any) -> list[Node]:
    """Return tools in each of ADK's forms: names, objects, or function declarations inside a tool."""
    tools: list[Node] = []
    for tool in listed if isinstance(listed, list) else []:
        if isinstance(tool, str):
            tools.append({"name": _name(tool), "type": "", "description": ""})
        if not isinstance(tool, dict):
            continue
        declared = tool.get("functionDeclarations", tool.get("function_declarations"))
        for each in declared if isinstance(declared, list) else [tool]:
            if isinstance(each, dict) and each.get("name"):
                schema = each.get("parametersJsonSchema") or each.get("parameters") or each.get("schema")
                tools.append(
                    {
                        "name": _name(each["name"]),
                        "type": _name(each.get("type", "")),
                        "description": _text(each.get("description")),
                        **({"schema": schema} if isinstance(schema, dict) else {}),
                    }
                )
    return tools[:MAX_TOOLS]


def _name(value: Any) -> str:
    return str(value)[:MAX_NAME] if isinstance(value, str) else ""


def _text(value: Any) -> str:
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def _parse_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
