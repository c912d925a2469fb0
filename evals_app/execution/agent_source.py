"""Sources of the agent to be evaluated."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol

from google.adk.apps.app import App
from google.adk.cli.service_registry import load_services_module

from evals_app.execution._adk import Agent, load_agent, split_app
from evals_app.runs.writes.outcomes import RunFacts
from sessions_app.agents.agent_module import AgentModule
from sessions_app.agents.folder import AgentsFolder
from sessions_app.agents.revisions import git_revision

LoadedAgent = tuple[Agent, App | None]
"""The root agent, and the app that wraps it."""


class AgentSource(Protocol):
    """An agent that can be loaded."""

    @property
    def app_name(self) -> str:
        """Name of the app."""

    @property
    def folder(self) -> AgentsFolder:
        """The agents folder."""

    @property
    def code_version(self) -> str:
        """Hash of the agent's files."""

    def load(self) -> LoadedAgent | Awaitable[LoadedAgent]:
        """Return the agent."""


@dataclass(frozen=True)
class FolderAgent:
    """An agent of a folder, loaded in this process by ADK's own loader."""

    folder: AgentsFolder
    app_name: str

    @property
    def code_version(self) -> str:
        """Hash of the agent's files."""
        return self.folder.code_version(self.app_name)

    def load(self) -> LoadedAgent:
        """Load the agent as `adk web` does, after the folder's `services.py`, which may register judge models."""
        load_services_module(str(self.folder.root))
        return load_agent(self.folder.path, self.app_name)


@dataclass(frozen=True)
class ModuleAgent:
    """An agent of a module, imported in this process, or made by a factory of the module."""

    folder: AgentModule
    app_name: str

    @property
    def code_version(self) -> str:
        """Hash of the files of the module's package or folder."""
        return self.folder.code_version(self.app_name)

    async def load(self) -> LoadedAgent:
        """Import the agent, or call its factory.

        Raises:
            TypeError: the module has neither an agent nor a factory of one under the name.
        """
        return split_app(await _import_object(self.folder), self.folder.reference)


async def _import_object(module: AgentModule) -> Agent | App:
    """Return the agent or app that a reference names, or that its factory returns."""
    loaded: Any = attrgetter(module.attribute)(importlib.import_module(module.name))
    if not isinstance(loaded, Agent | App) and callable(loaded):
        loaded = loaded()
        loaded = await loaded if isinstance(loaded, Awaitable) else loaded
    if not isinstance(loaded, Agent | App):
        raise TypeError(
            f"{module.reference} is no agent, App or factory of one, but {type(loaded).__name__}."
        )
    return loaded


async def read_app_name(module: AgentModule) -> str:
    """Return the name of the app or agent that a module has or makes."""
    return (await _import_object(module)).name


def find_source(agents: AgentsFolder, app_name: str) -> AgentSource:
    """Return the source of an agent in a folder or module."""
    return ModuleAgent(agents, app_name) if isinstance(agents, AgentModule) else FolderAgent(agents, app_name)


async def load_source(source: AgentSource) -> LoadedAgent:
    """Return the agent of a source, and the app that wraps it.

    Raises:
        TypeError: a module has neither an agent nor a factory of one under the name.
        Exception: the agent's code or ADK's loader fails.
    """
    loaded = source.load()
    return await loaded if isinstance(loaded, Awaitable) else loaded


async def collect_facts(source: AgentSource, agent: Agent) -> RunFacts:
    """Return the code version, commit, ADK version and models of an agent."""
    import google.adk.version

    return RunFacts(
        code_version=source.code_version,
        git_revision=await git_revision(source.folder.app_folder(source.app_name)),
        adk_version=google.adk.version.__version__,
        models=dict(_agent_models(agent)),
    )


def _agent_models(agent: Agent) -> Iterator[tuple[str, str]]:
    """Yield (agent, model) of an agent tree; agents without a model are omitted."""
    model = getattr(agent, "model", None)
    name = model if isinstance(model, str) else getattr(model, "model", "")
    if name:
        yield agent.name, name
    for child in getattr(agent, "sub_agents", None) or []:
        yield from _agent_models(child)
