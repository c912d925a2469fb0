"""What a remote server tells of an agent, as the agent page shows it: as far as its REST goes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from devui.remote import dialects
from devui.remote.http_client import Line
from sessions_app.agents.remotes import Remote

MOST_AGENTS = 300
MOST_DEPTH = 20
MOST_TOOLS = 100
MOST_NAME = 300
MOST_TEXT = 30_000

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
"""The one field of ADK's RunConfig that the REST of Python's server takes."""

Node = dict[str, Any]


async def described(line: Line, app: str, remote: Remote) -> tuple[Node, Node]:
    """Return the description of an app's agent (see `AgentCard`), and why its server cannot load it; one is empty.

    Raises:
        NotReached: the server does not answer.
    """
    problem = ""
    for path, read in (("/apps/{}/app-info", _of_app_info), ("/dev/apps/{}/build_graph", _of_build_graph)):
        answer = await line.ask("GET", path.format(quote(app, safe="")))
        said = dialects.error_text(answer.body) if not answer.is_success else ""
        if answer.status == 500 and "load" in said.lower():
            return {}, {"type": "RemoteError", "message": said, "file": "", "line": None, "traceback": ""}
        tree = read(_json(answer.body)) if answer.is_success else None
        if tree:
            return _known(remote) | tree, {}
        problem = problem or said
    what = "This remote server tells nothing of its agents but their names"
    told = f"{what}: {problem}" if problem else f"{what}."
    return {"name": app, "type": "", "description": "", "problem": told, **_known(remote)}, {}


def _known(remote: Remote) -> Node:
    schema = CUSTOM_METADATA if remote.language == "python" else {}
    return {"code": {"adk": remote.version}, "run_config": schema}


def _of_app_info(told: Any) -> Node | None:
    """Return the tree of `/apps/{app}/app-info` (`google.adk.cli.api_server.AppInfo`)."""
    if not isinstance(told, dict):
        return None
    agents, root = told.get("agents"), told.get("rootAgentName", told.get("root_agent_name"))
    if not isinstance(agents, dict) or not isinstance(root, str):
        return None
    count = [0]
    return _listed(agents, root, count, ())


def _listed(agents: Mapping[str, Any], name: str, count: list[int], above: tuple[str, ...]) -> Node | None:
    info = agents.get(name)
    if not isinstance(info, dict) or count[0] >= MOST_AGENTS or len(above) >= MOST_DEPTH:
        return None
    count[0] += 1
    node = {"name": _name(name), "type": "LlmAgent", "description": _text(info.get("description"))}
    if name in above:
        return {**node, "again": True}
    if instruction := _text(info.get("instruction")):
        node["instruction"] = instruction
    below = info.get("subAgents", info.get("sub_agents"))
    found = (
        [_listed(agents, str(each), count, (*above, name)) for each in below or []]
        if isinstance(below, list)
        else []
    )
    return {**node, "tools": _tools(info.get("tools")), "sub_agents": [each for each in found if each]}


def _of_build_graph(told: Any) -> Node | None:
    """Return the tree of `/dev/apps/{app}/build_graph`."""
    root = told.get("root_agent") if isinstance(told, dict) else None
    return _nested(root, [0], 0) if isinstance(root, dict) else None


def _nested(told: Mapping[str, Any], count: list[int], depth: int) -> Node | None:
    if count[0] >= MOST_AGENTS or depth >= MOST_DEPTH or not isinstance(told.get("name"), str):
        return None
    count[0] += 1
    node: Node = {
        "name": _name(told["name"]),
        "type": _name(told.get("type", "")),
        "description": _text(told.get("description")),
        "tools": _tools(told.get("tools")),
    }
    if instruction := _text(told.get("instruction")):
        node["instruction"] = instruction
    if model := told.get("model"):
        node["model"] = _name(model)
    below = told.get("sub_agents")
    below = [each for each in below if isinstance(each, dict)] if isinstance(below, list) else []
    return {**node, "sub_agents": [found for each in below if (found := _nested(each, count, depth + 1))]}


def _tools(told: Any) -> list[Node]:
    """Return the tools in ADK's forms: names, tools by themselves, or declarations of functions in a tool."""
    found: list[Node] = []
    for tool in told if isinstance(told, list) else []:
        if isinstance(tool, str):
            found.append({"name": _name(tool), "type": "", "description": ""})
        if not isinstance(tool, dict):
            continue
        declared = tool.get("functionDeclarations", tool.get("function_declarations"))
        for each in declared if isinstance(declared, list) else [tool]:
            if isinstance(each, dict) and each.get("name"):
                schema = each.get("parametersJsonSchema") or each.get("parameters") or each.get("schema")
                found.append(
                    {
                        "name": _name(each["name"]),
                        "type": _name(each.get("type", "")),
                        "description": _text(each.get("description")),
                        **({"schema": schema} if isinstance(schema, dict) else {}),
                    }
                )
    return found[:MOST_TOOLS]


def _name(value: Any) -> str:
    return str(value)[:MOST_NAME] if isinstance(value, str) else ""


def _text(value: Any) -> str:
    return value[:MOST_TEXT] if isinstance(value, str) else ""


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
