"""Sources of the agent to be evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from google.adk.apps.app import App
from google.adk.cli.service_registry import load_services_module

from evals_app.execution._adk import Agent, load_agent
from evals_app.runs.writes.outcomes import RunFacts
from sessions_app.agents.folder import AgentsFolder
from sessions_app.agents.revisions import git_revision


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

    def load(self) -> tuple[Agent, App | None]:
        """Return the root agent, and the app that wraps it."""


@dataclass(frozen=True)
class FolderAgent:
    """An agent of a folder, loaded in this process by ADK's own loader."""

    folder: AgentsFolder
    app_name: str

    @property
    def code_version(self) -> str:
        """Hash of the agent's files."""
        return self.folder.code_version(self.app_name)

    def load(self) -> tuple[Agent, App | None]:
        """Load the agent as `adk web` does, after the folder's `services.py`, which may register judge models."""
        load_services_module(str(self.folder.root))
        return load_agent(self.folder.path, self.app_name)


async def collect_facts(source: AgentSource, agent: Agent) -> RunFacts:
    """Return the code version, commit, ADK version and models of an agent."""
    import google.adk.version

    return RunFacts(
        code_version=source.code_version,
        git_revision=await git_revision(source.folder.folder_of(source.app_name)),
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
