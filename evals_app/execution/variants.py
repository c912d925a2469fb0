"""Variants applied to an agent: copies of all agents of its tree, of which some have other fields.

ADK's `clone` copies an agent. What the copies refer to is replaced as well: parents, the agents of an `AgentTool`, and
agents that a class of people's own holds in fields. The agents that were loaded are left as they are.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App
from google.adk.tools.agent_tool import AgentTool

from evals_app.execution._adk import Agent
from evals_app.execution.agent_tree import iter_agents, list_agents, read_field_values, read_tool_name
from evals_app.execution.variant_fields import MAX_NAMES, AgentOverrides, copy_with_description, read_changes
from evals_app.variants.model_variants import AgentModel
from evals_app.variants.variant import Variant
from sessions_app.store.errors import BadInput
from sessions_app.store.short_texts import join_names


def apply_variant(variant: Variant, agent: Agent, app: App | None) -> tuple[Agent, App | None]:
    """Return copies of an agent and of the app that wraps it, changed by a variant.

    Raises:
        BadInput: an agent, field, tool or model does not exist, cannot be varied, or a value has the wrong type.
    """
    try:
        root = _require_agent_tree(agent)
        changes = _read_all_changes(variant, root)
    except BadInput as error:
        raise BadInput(f"Variant {variant.name!r}: {error.message}", hint=error.hint) from error
    varied = _TreeCopy(changes).copy_agent(root)
    return varied, app and app.model_copy(update={"root_agent": varied})


def list_agent_models(agent: Agent) -> list[AgentModel]:
    """Return the agents of a tree with their own models, the root agent first.

    Raises:
        BadInput: its nodes are those of a workflow.
    """
    return [AgentModel(node.name, _read_own_model(node)) for node in iter_agents(_require_agent_tree(agent))]


def _read_own_model(agent: BaseAgent) -> str:
    """Return the name of the model of an agent that does not take one of an agent above: its own, or ADK's default."""
    if not isinstance(agent, LlmAgent):
        return ""
    parent = agent.parent_agent
    while parent is not None and not agent.model:
        if isinstance(parent, LlmAgent):
            return ""
        parent = parent.parent_agent
    return agent.canonical_model.model


def _require_agent_tree(root: Agent) -> BaseAgent:
    if not isinstance(root, BaseAgent):
        raise BadInput(
            f"{root.name!r} is a {type(root).__name__}, whose nodes a variant cannot change.",
            hint="A variant changes agents, their sub-agents and agents that are tools.",
        )
    return root


def _read_all_changes(variant: Variant, root: BaseAgent) -> dict[int, AgentOverrides]:
    """Return the changes by the identity of the agent."""
    agents: dict[str, list[BaseAgent]] = defaultdict(list)
    for agent in iter_agents(root):
        agents[agent.name].append(agent)
    changes = {}
    for name, fields in variant.patch.items():
        matching_agents = agents.get(name, [])
        if not matching_agents:
            hint = f"Agents of {root.name}: {join_names([*agents], MAX_NAMES)}."
            raise BadInput(f"there is no agent {name!r}.", hint=hint)
        if len(matching_agents) > 1:
            raise BadInput(
                f"{len(matching_agents)} agents have the name {name!r}.", hint="Give each a name of its own."
            )
        changes[id(matching_agents[0])] = read_changes(matching_agents[0], fields)
    return changes


class _TreeCopy:
    """Copies a tree of agents. An agent that several others refer to is copied once."""

    def __init__(self, changes: Mapping[int, AgentOverrides]) -> None:
        self._changes = changes
        self._copies: dict[int, BaseAgent] = {}

    def copy_agent(self, agent: BaseAgent) -> BaseAgent:
        """Return the copy of an agent with its sub-agents, tools and fields."""
        if id(agent) not in self._copies:
            self._copies[id(agent)] = self._copy_once(agent)
        return self._copies[id(agent)]

    def _copy_once(self, agent: BaseAgent) -> BaseAgent:
        changes = self._changes.get(id(agent), AgentOverrides())
        update: dict[str, Any] = {
            "sub_agents": [
                self.copy_agent(child)
                for child in agent.sub_agents
                if child.name not in changes.removed_agents
            ]
        }
        if isinstance(agent, LlmAgent):
            update["tools"] = self._copy_tools(agent.tools, changes)
        held = {
            name: self._copy_agents_in(value)
            for name, value in read_field_values(agent).items()
            if list_agents(value)
        }
        fields = {name: value for name, value in held.items() if name in type(agent).model_fields}
        copied = agent.clone(update={**update, **fields, **changes.values})
        for name in held.keys() - fields.keys():
            setattr(copied, name, held[name])
        return copied

    def _copy_tools(self, tools: list[Any], changes: AgentOverrides) -> list[Any]:
        copied_tools = []
        for tool in tools:
            name = read_tool_name(tool)
            if name and name in changes.removed_tools:
                continue
            if isinstance(tool, AgentTool):
                tool = copy.copy(tool)
                tool.agent = self.copy_agent(tool.agent)
            if name in changes.descriptions:
                tool = copy_with_description(tool, changes.descriptions[name])
            copied_tools.append(tool)
        return copied_tools

    def _copy_agents_in(self, value: Any) -> Any:
        if isinstance(value, BaseAgent):
            return self.copy_agent(value)
        return type(value)(self.copy_agent(item) if isinstance(item, BaseAgent) else item for item in value)
