"""Records that readers yield: sessions, state and events, and the base class of sources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Owner(NamedTuple):
    """Key of a session in its source."""

    app_name: str
    user_id: str
    session_id: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True, slots=True)
class SourceFilter:
    """Filter by app and user; None matches all."""

    app_name: str | None = None
    user_id: str | None = None

    def matches(self, app_name: str, user_id: str) -> bool:
        """Tell whether the filter matches this app and user."""
        return self.app_name in (None, app_name) and self.user_id in (None, user_id)


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session without its events and state. Times are epoch seconds."""

    owner: Owner
    created_at: float
    updated_at: float
    title: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredState:
    """Session state without the keys of other scopes.

    Attributes:
        seeds: the state at creation, if the source has it.
        changes: descriptions of changes made to it.
    """

    owner: Owner
    values: dict[str, Any]
    seeds: dict[str, Any] = field(default_factory=dict)
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedState:
    """The state of an app (`user_id` None) or of a user in it, keys without prefix."""

    app_name: str
    user_id: str | None
    values: dict[str, Any]
    updated_at: float
    seeds: dict[str, Any] = field(default_factory=dict)


class StoredJudgement(NamedTuple):
    """The judgement of a person on an event: `good` or `bad`. `judged_at` is epoch seconds."""

    verdict: str
    note: str
    person: str
    judged_at: float


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One event in wire form.

    Attributes:
        changes: descriptions of changes made to it.
        unread: reason why a part could not be read; empty if all was read.
        removed: keys of its state delta that were removed, not set to None.
        judgement: the judgement of a person, if the source has one.
    """

    owner: Owner
    wire: dict[str, Any]
    changes: tuple[str, ...] = ()
    unread: str = ""
    removed: frozenset[str] = frozenset()
    judgement: StoredJudgement | None = None


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """Row or line that could not be read."""

    where: str
    why: str


class SourceError(Exception):
    """Reading a source stopped; the message has the reason."""


class Source(ABC):
    """Store of another program, open for reading. Unreadable rows are yielded as `UnreadableRow`.

    Attributes:
        format: name of the format in reports.
        location: path or URL, without a password.
        fingerprint: text that changes with the source; empty if unknown.
        remarks: notes about the whole source, for the report.
    """

    def __init__(self, format: str, location: str, fingerprint: str = "") -> None:
        self.format, self.location, self.fingerprint = format, location, fingerprint
        self.remarks: list[str] = []

    @abstractmethod
    def sessions(self) -> Iterator[StoredSession | UnreadableRow]:
        """Yield the sessions, in no special order."""

    @abstractmethod
    def states(self) -> Iterator[StoredState | UnreadableRow]:
        """Yield the sessions' own state."""

    @abstractmethod
    def shared_states(self) -> Iterator[SharedState | UnreadableRow]:
        """Yield the state of apps and users, if the source has it."""

    @abstractmethod
    def events(self) -> Iterator[StoredEvent | UnreadableRow]:
        """Yield the events in the order of time; each session's own events in the order they were appended."""

    def close(self) -> None:  # noqa: B027 - most sources hold nothing open
        """Close the source."""
