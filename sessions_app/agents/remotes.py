"""Registry of remote ADK servers and their last known status.

An app of a remote server is named by its name there, `@`, and the server's name: `weather@go`. The web process queries
the servers and registers the results here; pages read them. This module makes no requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SEPARATOR = "@"


@dataclass(frozen=True, slots=True)
class Remote:
    """A remote server with its status at the last query.

    Attributes:
        name: as `--runtime NAME=URL` gives it.
        url: its address, without a password.
        apps: its app names on that server, sorted; the last known ones while it cannot be reached.
        language: its ADK's language, such as `python` or `js`; empty: unknown.
        language_label: its ADK's language for display.
        version: its ADK's version; empty: unknown.
        has_live_runs: its ADK supports live runs.
        problem: why it cannot be used now, with a hint; empty: it can.
        asked_at: epoch seconds of the last completed query; 0: none yet.
    """

    name: str
    url: str
    apps: tuple[str, ...] = ()
    language: str = ""
    language_label: str = ""
    version: str = ""
    has_live_runs: bool = False
    problem: str = ""
    asked_at: float = 0.0

    @property
    def app_names(self) -> tuple[str, ...]:
        """The names of its apps in DevUI."""
        return tuple(f"{app}{SEPARATOR}{self.name}" for app in self.apps)

    @property
    def kind(self) -> str:
        """Its ADK's version and language for display: `ADK 2.13.0 for Python`."""
        version = " ".join(filter(None, ("ADK", self.version)))
        return f"{version} for {self.language_label}" if self.language_label else version


_registry: dict[str, Remote] = {}


def register(remote: Remote) -> None:
    """Register the current status of a remote server."""
    _registry[remote.name] = remote


def clear() -> None:
    """Remove all remote servers, when the web process ends."""
    _registry.clear()


def all_remotes() -> list[Remote]:
    """Return the remote servers, sorted by name."""
    return [_registry[name] for name in sorted(_registry)]


def find_remote(app_name: str) -> Remote | None:
    """Return the remote server in an app's name, even if it has no such app; None for local apps."""
    app, separator, name = app_name.rpartition(SEPARATOR)
    return _registry.get(name) if separator and app else None


def upstream_app_name(app_name: str) -> str:
    """Return a remote app's name on its own server."""
    return app_name.rpartition(SEPARATOR)[0]


def list_app_names(remotes: Iterable[Remote]) -> list[str]:
    """Return the names of all remote apps, sorted."""
    return sorted(name for remote in remotes for name in remote.app_names)
