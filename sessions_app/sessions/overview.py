"""The apps at a glance: those of the agents folder and of remote servers, and those that only have sessions left."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django.db.models import Count

from sessions_app.agents import folder, remotes
from sessions_app.agents.remotes import Remote
from sessions_app.lookup import list_apps_with_sessions
from sessions_app.models import AgentCard, AgentSession, Run
from sessions_app.sessions import listing

CACHE_S = 2.0
"""How long lists go on with the agents that a folder had, unless it was itself written to: to look is a long walk."""


@dataclass(frozen=True, slots=True)
class Agent:
    """One app.

    Attributes:
        in_folder: the agents folder has it, so it can be run.
        remote: the server that has it; None: it runs on this machine, or nowhere any more.
        status: one of `AgentCard.Status`; unknown also when the code has changed since it was loaded.
        tree: the description of its root agent (see `AgentCard.description`), empty when not known.
        error: why it could not be loaded: type, message, file, line, source, traceback; empty when it could.
        code_version: hash of the code that was loaded, at `checked_at`; empty when it never was.
        files_version: hash of the code that the folder has now.
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
        """Tell whether somebody can be asked to run it: a process here, or a server that answers and has it."""
        if self.remote is None:
            return self.in_folder
        return not self.remote.problem and self.name in self.remote.app_names

    @property
    def has_changed(self) -> bool:
        """Tell whether the folder has other code than was loaded."""
        return bool(self.code_version and self.files_version and self.code_version != self.files_version)

    @property
    def is_asked_for(self) -> bool:
        """Tell whether loading the agent would tell something new."""
        return self.can_run and self.status == AgentCard.Status.UNKNOWN


def app_names() -> list[str]:
    """Return every app a page can be about, sorted."""
    found = folder.configured_folder()
    remote = remotes.list_app_names(remotes.all_remotes())
    return sorted({*(_folder_names(found) if found else ()), *remote, *list_apps_with_sessions()})


def _folder_names(found: folder.AgentsFolder) -> tuple[str, ...]:
    try:
        changed_ns = found.given.stat().st_mtime_ns
    except OSError:
        return ()  # removed, or not for us to read
    return _cached_folder_names(found, changed_ns, time.monotonic() // CACHE_S)


@lru_cache(maxsize=4)
def _cached_folder_names(found: folder.AgentsFolder, _changed_ns: int, _period: float) -> tuple[str, ...]:
    return tuple(found.names())


def all_agents() -> list[Agent]:
    """Return every app: those of the agents folder first, then those of remote servers.

    The number of queries does not grow with them.
    """
    found = folder.configured_folder()
    local = found.names() if found else []
    names = [*local, *remotes.list_app_names(remotes.all_remotes())]
    sessions = listing.newest_sessions()
    counts = _session_counts()
    active = _active_runs()
    cards = {card.app_name: card for card in AgentCard.objects.all()}
    return [
        _make_agent(
            name,
            cards.get(name),
            found if name in local else None,
            sessions=sessions.get(name, []),
            session_count=counts.get(name, 0),
            active_runs=active.get(name, 0),
        )
        for name in [*names, *sorted(sessions.keys() - set(names))]
    ]


def find_agent(app_name: str) -> Agent | None:
    """Return one app without its sessions, or None when nothing is known of it."""
    found = folder.configured_folder()
    in_folder = found is not None and app_name in found.names()
    card = AgentCard.objects.filter(app_name=app_name).first()
    is_remote = app_name in remotes.list_app_names(remotes.all_remotes())
    if not (card or in_folder or is_remote) and app_name not in list_apps_with_sessions():
        return None
    return _make_agent(app_name, card, found if in_folder else None)


def _make_agent(name: str, card: AgentCard | None, found: folder.AgentsFolder | None, **facts: Any) -> Agent:
    facts["remote"] = remotes.remote_of_app(name)
    if card is None:
        return Agent(name, found is not None, AgentCard.Status.UNKNOWN, **facts)
    files_version = found.code_version(name) if found is not None else ""
    is_outdated = found is not None and card.code_version != files_version
    status = AgentCard.Status.UNKNOWN if is_outdated else card.status
    facts |= {
        "code_version": card.code_version,
        "files_version": files_version,
        "checked_at": card.checked_at,
    }
    error = json.loads(card.error) if status == AgentCard.Status.FAILED else {}
    return Agent(name, found is not None, status, json.loads(card.description), error, **facts)


def _session_counts() -> dict[str, int]:
    rows = AgentSession.objects.filter(realm="").order_by().values_list("app_name")
    return dict(rows.annotate(Count("pk")))


def _active_runs() -> dict[str, int]:
    rows = Run.objects.filter(status__in=Run.ACTIVE, session__realm="").order_by()
    return dict(rows.values_list("session__app_name").annotate(Count("pk")))


def next_to_load(after: str) -> str:
    """Return the first agent behind `after` of which nothing current is known, or nothing.

    Behind those of the folder come those of remote servers that can be reached.
    """
    found = folder.configured_folder()
    local = found.names() if found else []
    remote = remotes.list_app_names(remote for remote in remotes.all_remotes() if not remote.problem)
    names = [*local, *remote]
    later = names[names.index(after) + 1 :] if after in names else [name for name in names if name > after]
    cards = AgentCard.objects.filter(app_name__in=later).exclude(status=AgentCard.Status.UNKNOWN)
    versions = dict(cards.values_list("app_name", "code_version"))
    return next((name for name in later if versions.get(name) != _version_now(found, local, name)), "")


def _version_now(found: folder.AgentsFolder | None, local: list[str], name: str) -> str:
    """Return the version of an agent's code; that of a remote one is not told, so what is known of it stays."""
    return found.code_version(name) if found and name in local else ""
