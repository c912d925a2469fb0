"""Data classes of the evidence of a session's current state; `state_queries` reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sessions_app.problems.evidence import TempKey
from sessions_app.store import scopes
from sessions_app.store.models import ChangeCause, Scope


@dataclass(frozen=True, slots=True)
class KeyWriteEvidence:
    """A write of a key, from the ledger."""

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
        """Return whether it removed the key or wrote an empty value."""
        return self.removed or self.value in ("null", '""', "[]", "{}")


@dataclass(frozen=True, slots=True)
class KeyEvidence:
    """A key with its current value.

    Attributes:
        text: the start of its JSON.
        size: UTF-8 bytes of the whole value.
        writes: its latest writes, newest first.
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
    """Another session of the app with the same value, including credentials, under the same key."""

    key: str
    session_pk: int
    session_id: str
    user_id: str


@dataclass(frozen=True, slots=True)
class Invocation:
    """A recent invocation: its first event and its authors."""

    id: str
    first_seq: int
    authors: frozenset[str]


@dataclass(frozen=True, slots=True)
class FailureText:
    """The error of an event or run."""

    seq: int
    invocation_id: str
    text: str


@dataclass(frozen=True, slots=True)
class InstructionKey:
    """A key that an agent's instruction names in braces."""

    agent: str
    name: str


@dataclass(frozen=True, slots=True)
class StateEvidence:
    """All input of the detectors of problems of the state: the current state that a session reads.

    Attributes:
        keys: the first of each scope, sorted; session, user, app.
        same_values: other recent sessions of the app with the same value of one of the session's own keys.
        other_sessions: number of the user's other recent sessions of the app.
        temp_keys: writes of `temp:` keys in them, in order.
        invocations: the recent ones, in order.
    """

    session_pk: int
    user_id: str
    keys: list[KeyEvidence]
    same_values: list[SameValue] = field(default_factory=list)
    other_sessions: int = 0
    temp_keys: list[TempKey] = field(default_factory=list)
    invocations: list[Invocation] = field(default_factory=list)
    failures: list[FailureText] = field(default_factory=list)
    instruction_keys: list[InstructionKey] = field(default_factory=list)

    def of(self, scope: Scope) -> Iterator[KeyEvidence]:
        """Yield the keys of a scope."""
        return (key for key in self.keys if key.scope == scope)


def is_by_hand(write: KeyWriteEvidence) -> bool:
    """Return whether an agent or a person made a write, not a seed, import or fork."""
    return write.cause in (ChangeCause.APPEND, ChangeCause.EDIT)
