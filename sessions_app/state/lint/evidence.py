"""What the lint rules look at, as plain values. `gathering` reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sessions_app import scopes
from sessions_app.models import ChangeCause, Scope


@dataclass(frozen=True, slots=True)
class KeyWriteEvidence:
    """A write of a key: a row of the ledger."""

    value: str | None
    cause: str
    seq: int
    invocation_id: str
    session_pk: int | None
    session_id: str
    user_id: str
    removed: bool = False

    @property
    def is_empty(self) -> bool:
        """Tell whether it left nothing to read."""
        return self.removed or self.value in ("null", '""', "[]", "{}")


@dataclass(frozen=True, slots=True)
class KeyEvidence:
    """A key as it is now.

    Attributes:
        text: the beginning of its JSON.
        size: bytes of the whole, in UTF-8.
        writes: its newest writes, newest first.
    """

    scope: str
    key: str
    text: str
    size: int
    note: str = ""
    writes: Sequence[KeyWriteEvidence] = ()

    @property
    def name(self) -> str:
        """The key as an agent writes it, with its prefix."""
        return scopes.PREFIX[Scope(self.scope)] + self.key


@dataclass(frozen=True, slots=True)
class SameValue:
    """Another session of the app that holds the same value under a key of this name, credentials compared, too."""

    key: str
    session_pk: int
    session_id: str
    user_id: str


@dataclass(frozen=True, slots=True)
class GhostKey:
    """A write of a `temp:` key."""

    key: str
    seq: int
    invocation_id: str


@dataclass(frozen=True, slots=True)
class Invocation:
    """A recent invocation: its first event and who spoke in it."""

    id: str
    first_seq: int
    authors: frozenset[str]


@dataclass(frozen=True, slots=True)
class Failure:
    """What an event, or the run of an invocation, failed with."""

    seq: int
    invocation_id: str
    text: str


@dataclass(frozen=True, slots=True)
class InstructionKey:
    """A key that an agent's instruction names in braces."""

    agent: str
    name: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything the rules know.

    Attributes:
        keys: sorted within each scope; session, user, app.
        unread: keys beyond those of their scope that are looked at.
        elsewhere: other recent sessions of the app that hold the value of one of the session's own keys.
        other_sessions: how many other recent sessions of the app the user has.
        invocations: the recent ones, in order.
    """

    session_pk: int
    user_id: str
    keys: list[KeyEvidence]
    unread: int = 0
    elsewhere: list[SameValue] = field(default_factory=list)
    other_sessions: int = 0
    ghosts: list[GhostKey] = field(default_factory=list)
    invocations: list[Invocation] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    readings: list[InstructionKey] = field(default_factory=list)

    def of(self, scope: Scope) -> Iterator[KeyEvidence]:
        """Yield the keys of a scope."""
        return (key for key in self.keys if key.scope == scope)


def is_by_hand(write: KeyWriteEvidence) -> bool:
    """Tell whether a write was an agent's or a person's, and no seed, import or fork."""
    return write.cause in (ChangeCause.APPEND, ChangeCause.EDIT)
