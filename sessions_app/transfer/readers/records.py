"""What a reader gives, whatever it reads: sessions, shared state and events in DevUI's terms."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol


class Format(StrEnum):
    """The layouts that can be read, by the words a report uses."""

    SQLITE = "ADK SqliteSessionService"
    V1 = "ADK DatabaseSessionService (v1)"
    V0 = "ADK DatabaseSessionService (v0, pickled actions)"
    JS = "ADK for JavaScript"
    GO = "ADK for Go"
    RUST = "adk-rust"
    JSON = "session JSON of adk web"
    DEVUI = "DevUI export"


class Owner(NamedTuple):
    """What names a session in its source."""

    app_name: str
    user_id: str
    session_id: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True, slots=True)
class SourceFilter:
    """What of a source is wanted; None means all."""

    app_name: str | None = None
    user_id: str | None = None

    def takes(self, app_name: str, user_id: str) -> bool:
        """Tell whether a session of this app and user is wanted."""
        return self.app_name in (None, app_name) and self.user_id in (None, user_id)


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session without its events and state. Times are epoch seconds.

    Attributes:
        part: the file that it stands in, where the source is made of several.
    """

    owner: Owner
    created_at: float
    updated_at: float
    title: str = ""
    tags: tuple[str, ...] = ()
    part: str = ""


@dataclass(frozen=True, slots=True)
class StoredState:
    """The state a session has in its source, without the keys of other scopes.

    `seeds` is what it was created with, where the source knows.
    """

    owner: Owner
    values: dict[str, Any]
    seeds: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SharedState:
    """The state of an app (`user_id` None) or of a user in it, keys without prefix."""

    app_name: str
    user_id: str | None
    values: dict[str, Any]
    updated_at: float
    seeds: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One event in wire form.

    Attributes:
        changes: what had to be changed in it, in words.
        unread: why a part of it could not be read; empty: it could.
        removed: keys of its delta that were removed, not set to None.
    """

    owner: Owner
    wire: dict[str, Any]
    changes: tuple[str, ...] = ()
    unread: str = ""
    removed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """A row or line that could not be read at all."""

    where: str
    why: str


class Source(Protocol):
    """A store of another program, opened to be read only. Rows that cannot be read come as `Unread`."""

    format: Format
    location: str
    """Path or URL, without a password."""
    remarks: list[str]
    """What a person should know about the whole source."""

    def fingerprint(self) -> str:
        """Return a text that changes when the source changes; empty: it cannot be told."""
        ...

    def sessions(self) -> Iterator[StoredSession | UnreadableRow]:
        """Yield the sessions, in no special order."""
        ...

    def states(self) -> Iterator[StoredState | UnreadableRow]:
        """Yield the sessions' own state."""
        ...

    def shared(self) -> Iterator[SharedState | UnreadableRow]:
        """Yield the state of apps and users."""
        ...

    def count_events(self) -> int | None:
        """Return how many events there are, when that is cheap to tell."""
        ...

    def events(self, only: Collection[Owner] | None = None) -> Iterator[StoredEvent | UnreadableRow]:
        """Yield events in the order of time; each session's own events in the order they were appended.

        Args:
            only: a few sessions to read; None: all.
        """
        ...

    def close(self) -> None:
        """Let go of the source."""
        ...
