"""Running ADK servers elsewhere whose agents appear beside the local ones, and what is known of each.

An app of a remote server has its name there, an `@` and the name that the server was given: `weather@go`. The web
process asks the servers and writes down here what they are like; pages read it. Nothing here calls anybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SEPARATOR = "@"


@dataclass(frozen=True, slots=True)
class Remote:
    """A remote server as it was when it was last asked.

    Attributes:
        name: as `--runtime NAME=URL` gives it.
        url: its address, without a password.
        apps: the names of its apps there, sorted; those that were known last, when it cannot be reached.
        language: of the ADK that it runs, in lower case: python, go, java, js, rust; empty: not known.
        version: of that ADK; empty: not told.
        is_spoken_with: its ADK has live runs.
        problem: why it cannot be used now, with the way out; empty: it can.
        asked_at: epoch seconds of the last look; 0: none has come to an end yet.
    """

    name: str
    url: str
    apps: tuple[str, ...] = ()
    language: str = ""
    version: str = ""
    is_spoken_with: bool = False
    problem: str = ""
    asked_at: float = 0.0

    @property
    def app_names(self) -> tuple[str, ...]:
        """The names of its apps here."""
        return tuple(f"{app}{SEPARATOR}{self.name}" for app in self.apps)

    @property
    def kind(self) -> str:
        """What it is, in words: `ADK 2.13.0 for Python`."""
        languages = {"python": "Python", "go": "Go", "java": "Java", "js": "JavaScript", "rust": "Rust"}
        told = " ".join(filter(None, ("ADK", self.version)))
        return f"{told} for {languages[self.language]}" if self.language in languages else told


_registry: dict[str, Remote] = {}


def register(remote: Remote) -> None:
    """Write down what a remote server is like now."""
    _registry[remote.name] = remote


def clear() -> None:
    """Forget the remote servers: the web process ends."""
    _registry.clear()


def all_remotes() -> list[Remote]:
    """Return the remote servers by their names."""
    return [_registry[name] for name in sorted(_registry)]


def remote_of_app(app_name: str) -> Remote | None:
    """Return the remote server that an app belongs to, whether it has the app or not; None: it is no remote app."""
    app, separator, name = app_name.rpartition(SEPARATOR)
    return _registry.get(name) if separator and app else None


def upstream_app_name(app_name: str) -> str:
    """Return the name that a remote app has on its own server."""
    return app_name.rpartition(SEPARATOR)[0]


def list_app_names(remotes: Iterable[Remote]) -> list[str]:
    """Return the names of all remote apps, sorted."""
    return sorted(name for remote in remotes for name in remote.app_names)
