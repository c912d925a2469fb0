"""Overview of apps: those of the agents folder, of remote servers, and those with only sessions left."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django.db.models import Count, QuerySet

from sessions_app.agents import folder, remotes
from sessions_app.agents.remotes import Remote
from sessions_app.lookup import list_apps_with_sessions
from sessions_app.sessions import listing
from sessions_app.store import realms
from sessions_app.store.errors import NotFound
from sessions_app.store.models import AgentCard, AgentSession, Run

CACHE_S = 2.0
"""Seconds for which the app names of an unchanged folder are cached, because reading the folder is slow."""


@dataclass(frozen=True, slots=True)
class Agent:
    """One app.

    Attributes:
        in_folder: whether the agents folder has it, so it can be run.
        remote: the server that has it; None: it runs on this machine, or was removed.
        status: one of `AgentCard.Status`; unknown also if the code has changed since it was loaded.
        tree: the description of its root agent (see `AgentCard.description`), empty if unknown.
        error: the load error: type, message, file, line, source, traceback; empty if it was loaded.
        code_version: hash of the code loaded at `checked_at`; empty if it was never loaded.
        files_version: hash of the current code in the folder.
    """

    name: str
    in_folder: bool
    status: str
    tree: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] = field(default_factory=dict)
    sessions: list[AgentSession] = field(default_factory=list)
    session_count: int = 0
    active_runs: int = 0
    code_version: str = ""
    files_version: str = ""
    checked_at: float = 0.0
    remote: Remote | None = None

    @property
    def can_run(self) -> bool:
        """Return whether it can run: in a local process, or on a reachable server that has it."""
        if self.remote is None:
            return self.in_folder
        return not self.remote.problem and self.name in self.remote.app_names

    @property
    def has_changed(self) -> bool:
        """Return whether the code in the folder differs from the loaded code."""
        return bool(self.code_version and self.files_version and self.code_version != self.files_version)

    @property
    def is_asked_for(self) -> bool:
        """Return whether loading the agent would add information."""
        return self.can_run and self.status == AgentCard.Status.UNKNOWN


def app_names() -> list[str]:
    """Return the names of all apps, sorted."""
    agents_folder = folder.configured_folder()
    remote = remotes.list_app_names(remotes.all_remotes())
    return sorted(
        {*(_folder_names(agents_folder) if agents_folder else ()), *remote, *list_apps_with_sessions()}
    )


def is_local(app_name: str) -> bool:
    """Tell whether the agents folder has an app, as far as the last seconds are concerned."""
    agents_folder = folder.configured_folder()
    return agents_folder is not None and app_name in _folder_names(agents_folder)


def _folder_names(agents_folder: folder.AgentsFolder) -> tuple[str, ...]:
    try:
        changed_ns = agents_folder.path.stat().st_mtime_ns
    except OSError:
        return ()  # removed, or not for us to read
    return _cached_folder_names(agents_folder, changed_ns, time.monotonic() // CACHE_S)


@lru_cache(maxsize=4)
def _cached_folder_names(
    agents_folder: folder.AgentsFolder, _changed_ns: int, _period: float
) -> tuple[str, ...]:
    return tuple(agents_folder.names())


def all_agents() -> list[Agent]:
    """Return all apps: those of the agents folder first, then those of remote servers.

    The number of queries is constant.
    """
    agents_folder = folder.configured_folder()
    local = agents_folder.names() if agents_folder else []
    names = [*local, *remotes.list_app_names(remotes.all_remotes())]
    sessions = listing.newest_sessions()
    counts = _count_by(AgentSession.objects.filter(realm=""), "app_name")
    active = _count_by(Run.objects.filter(status__in=Run.ACTIVE, session__realm=""), "session__app_name")
    cards = {card.app_name: card for card in AgentCard.objects.all()}
    return [
        _make_agent(
            name,
            cards.get(name),
            agents_folder if name in local else None,
            sessions=sessions.get(name, []),
            session_count=counts.get(name, 0),
            active_runs=active.get(name, 0),
        )
        for name in [*names, *sorted(sessions.keys() - set(names))]
    ]


def find_agent(app_name: str) -> Agent | None:
    """Return one app without its sessions; None if it is unknown."""
    agents_folder = folder.configured_folder()
    in_folder = agents_folder is not None and app_name in agents_folder.names()
    card = AgentCard.objects.filter(app_name=app_name).first()
    is_remote = app_name in remotes.list_app_names(remotes.all_remotes())
    sessions = AgentSession.objects.filter(app_name=app_name, realm__in=realms.LASTING)
    if not (card or in_folder or is_remote or sessions.exists()):
        return None
    return _make_agent(app_name, card, agents_folder if in_folder else None)


def require_agent(app_name: str) -> Agent:
    """Return one app without its sessions.

    Raises:
        NotFound: neither the agents folder, nor a remote server, nor any session knows the app.
    """
    agent = find_agent(app_name)
    if agent is None:
        raise NotFound(f"No agent {app_name!r}.", hint="The home page lists the agents of the agents folder.")
    return agent


def _make_agent(
    name: str, card: AgentCard | None, agents_folder: folder.AgentsFolder | None, **facts: Any
) -> Agent:
    facts["remote"] = remotes.find_remote(name)
    if card is None:
        return Agent(name, agents_folder is not None, AgentCard.Status.UNKNOWN, **facts)
    files_version = agents_folder.code_version(name) if agents_folder is not None else ""
    is_outdated = agents_folder is not None and card.code_version != files_version
    status = AgentCard.Status.UNKNOWN if is_outdated else card.status
    facts |= {
        "code_version": card.code_version,
        "files_version": files_version,
        "checked_at": card.checked_at,
    }
    error = json.loads(card.error) if status == AgentCard.Status.FAILED else {}
    return Agent(name, agents_folder is not None, status, json.loads(card.description), error, **facts)


def _count_by(rows: QuerySet[Any], column: str) -> dict[str, int]:
    return dict(rows.order_by().values_list(column).annotate(Count("pk")))


def next_to_load(after: str) -> str:
    """Return the first agent after `after` whose card is missing or outdated; empty: none.

    Agents of reachable remote servers follow those of the folder.
    """
    agents_folder = folder.configured_folder()
    local = agents_folder.names() if agents_folder else []
    remote = remotes.list_app_names(remote for remote in remotes.all_remotes() if not remote.problem)
    names = [*local, *remote]
    later = names[names.index(after) + 1 :] if after in names else [name for name in names if name > after]
    cards = AgentCard.objects.filter(app_name__in=later).exclude(status=AgentCard.Status.UNKNOWN)
    versions = dict(cards.values_list("app_name", "code_version"))
    return next(
        (name for name in later if versions.get(name) != _version_now(agents_folder, local, name)), ""
    )


def _version_now(agents_folder: folder.AgentsFolder | None, local: list[str], name: str) -> str:
    """Return the version of an agent's code; empty for remote agents, whose cards stay valid."""
    return agents_folder.code_version(name) if agents_folder and name in local else ""
