"""The agents of an app as they are, for a form of variants: the fields that a variant may replace, as described.

Pure. The process of the agent checks variants: what a description cannot tell is refused there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from evals_app.files.plain_yaml import dump_yaml
from sessions_app.store.scopes import replace_surrogates

TRUNCATED = 30_000
"""Characters from which on a description holds only the beginning of a text."""

MAX_AGENTS = 50
"""Most agents of a form."""

CONFIG, MODEL = "generate_content_config", "model"
INHERITED = "the agent above"
"""Source of the model of an agent that takes the one of its parent (`model_from` of a description)."""

LABELS = {
    "instruction": "Instruction",
    MODEL: "Model",
    CONFIG: "Generation config",
    "description": "Description",
    "static_instruction": "Static instruction",
    "global_instruction": "Global instruction",
}
OPTIONAL = ("static_instruction", "global_instruction")
"""Fields that are shown if the agent has them; else they can be written among its other fields."""


@dataclass(frozen=True)
class OriginalField:
    """A field of an agent.

    Attributes:
        fixed_reason: why a form cannot change it.
        note: what else is known of its value.
        is_inherited: the value is that of the parent.
    """

    name: str
    label: str
    value: str
    fixed_reason: str = ""
    note: str = ""
    is_inherited: bool = False

    @property
    def example(self) -> str:
        """Example of a value that is not plain text."""
        return "temperature: 0.2" if self.name == CONFIG else ""

    @property
    def is_line(self) -> bool:
        """Tell whether its value is a single line."""
        return self.name == MODEL


@dataclass(frozen=True)
class OriginalTool:
    """A tool of an agent, or a toolset. `fixed_reason`: why a form cannot change it."""

    name: str
    description: str
    fixed_reason: str = ""


@dataclass(frozen=True)
class OriginalAgent:
    """An agent with the fields and tools that a variant may change. `fixed_reason`: why a form cannot change it."""

    name: str
    type: str
    fields: tuple[OriginalField, ...] = ()
    tools: tuple[OriginalTool, ...] = ()
    fixed_reason: str = ""


def read_original_agents(description: Mapping[str, Any]) -> list[OriginalAgent]:
    """Return the agents of a description: the root, sub-agents and agents that are tools, at most `MAX_AGENTS`."""
    nodes: dict[str, list[Mapping[str, Any]]] = {}
    for node in _iter_nodes(description):
        same_name = nodes.setdefault(node.get("name") or "", [])
        if node not in same_name and not node.get("again"):
            same_name.append(node)
    agents = [_read_agent(name, same_name) for name, same_name in nodes.items() if same_name]
    return agents[:MAX_AGENTS]


def hash_agents(agents: Sequence[OriginalAgent]) -> str:
    """Return a hash of what a form shows of agents."""
    text = json.dumps([asdict(agent) for agent in agents], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:16]


def _iter_nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    tool_agents = [
        tool["agent"] for tool in node.get("tools") or [] if tool.get("agent") and "schema" in tool
    ]
    for child in (*(node.get("sub_agents") or []), *tool_agents):
        yield from _iter_nodes(child)


def _read_agent(name: str, nodes: list[Mapping[str, Any]]) -> OriginalAgent:
    node = nodes[0]
    agent_type = node.get("type") or ""
    if len(nodes) > 1:
        return OriginalAgent(name, agent_type, fixed_reason=f"{len(nodes)} agents have this name.")
    if node.get("problem") or "callbacks" not in node:
        reason = node.get("problem") or f"A {agent_type} cannot be varied: its nodes are code."
        return OriginalAgent(name, agent_type, fixed_reason=str(reason))
    tools = tuple(_read_tool(tool) for tool in node.get("tools") or [])
    return OriginalAgent(name, agent_type, tuple(_iter_fields(node)), tools)


def _iter_fields(node: Mapping[str, Any]) -> Iterator[OriginalField]:
    is_llm_agent = "tools" in node
    for name, label in LABELS.items():
        if name != "description" and not is_llm_agent:
            continue
        if name == MODEL:
            is_inherited = node.get("model_from") == INHERITED
            yield OriginalField(
                name, label, node.get(MODEL) or "", note=_describe_model(node), is_inherited=is_inherited
            )
        elif name == CONFIG:
            yield _read_config(node.get("model_config") or {}, label)
        elif name not in OPTIONAL or node.get(name) or node.get(f"{name}_provider"):
            yield _read_text(node, name, label)


def _read_text(node: Mapping[str, Any], name: str, label: str) -> OriginalField:
    value = replace_surrogates(node.get(name) or "")
    if provider := node.get(f"{name}_provider"):
        return OriginalField(name, label, "", f"The function {provider}: change its code.")
    if len(value) >= TRUNCATED:
        return OriginalField(
            name, label, value, f"Longer than {TRUNCATED:,} characters: write a variant file."
        )
    return OriginalField(name, label, value)


def _describe_model(node: Mapping[str, Any]) -> str:
    source, model_type = node.get("model_from") or "", node.get("model_type") or ""
    return f"from {source}" if source else f"an object of {model_type}" if model_type else ""


def _read_config(config: Mapping[str, Any], label: str) -> OriginalField:
    values = {name: value for name, value in config.items() if name not in {"http_options", "tools"}}
    fixed_reason = "Its config has tools of its own: change its code." if config.get("tools") else ""
    return OriginalField(CONFIG, label, dump_yaml(values) if values else "", fixed_reason)


def _read_tool(tool: Mapping[str, Any]) -> OriginalTool:
    name, description = tool.get("name") or "", replace_surrogates(tool.get("description") or "")
    if tool.get("type") == "toolset":
        return OriginalTool(name, "", "A toolset: its tools are known only while the agent runs.")
    fixed_reason = (
        "Its description is longer than the form can show." if len(description) >= TRUNCATED else ""
    )
    return OriginalTool(name, description, fixed_reason)
