"""What a rewind would change and what it would not. Shapes alone, which `rewind.plan_rewind` fills."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from sessions_app.models import Event, StateChange

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A stored JSON value. `private` is the whole text when `public` leaves a credential out."""

    public: str
    private: str | None = None
    note: str = ""

    @classmethod
    def of(cls, row: StateChange) -> StoredValue:
        """Return the value that a row of the ledger wrote."""
        return cls(row.value or "null", row.private, row.note)

    @property
    def whole(self) -> str:
        """The text that is compared and restored."""
        return self.public if self.private is None else self.private


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """A session key that is not now what it was. None: the key does not exist, then or now."""

    key: str
    now: StoredValue | None
    then: StoredValue | None


class FileOutcome(StrEnum):
    """What a rewind does to a file. Every version that was ever saved stays."""

    RESTORED = "restored"
    HIDDEN = "hidden"
    LOST = "lost"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class FilePlan:
    """An artifact of the session that has changed since.

    Attributes:
        now, then: its version; `then` is None when it did not exist.
        fate: restored: its old content is saved as a new version. hidden: a new version marks it as absent, as ADK
            does. lost: hidden, because the old version is no longer there. elsewhere: left alone, because DevUI's
            store has no version of it; another artifact service keeps it.
    """

    name: str
    now: int
    then: int | None
    fate: FileOutcome


@dataclass(frozen=True, slots=True)
class SharedKey:
    """A `user:` or `app:` key that the rewound events wrote: it stays as it is now."""

    scope: str
    key: str
    name: str
    before: StoredValue | None
    now: StoredValue | None


@dataclass(frozen=True, slots=True)
class ToolEffect:
    """A tool call of the rewound events: what it did outside of the session is not undone."""

    seq: int
    event_id: str
    tool: str
    args: dict[str, str]


@dataclass(frozen=True, slots=True)
class RecallableEntry:
    """A memory entry that was added from the rewound events on: an agent may still recall it."""

    pk: int
    entry_id: str
    timestamp: float
    text: str


@dataclass(frozen=True, slots=True)
class AdkDifference:
    """A key that ADK's own `rewind_async` would leave otherwise. None: the key would not exist."""

    key: str
    here: StoredValue | None
    adk: StoredValue | None


@dataclass(frozen=True, slots=True)
class CountedList(Generic[T]):
    """The first entries of a list, and how many there are."""

    shown: list[T]
    count: int

    @property
    def more(self) -> int:
        """How many are not shown."""
        return self.count - len(self.shown)


@dataclass(frozen=True, slots=True)
class RewindPlan:
    """A rewind of a session to before an invocation, not yet done.

    Attributes:
        first: the first event of the invocation; it and all after it are taken back, and stay in the history.
        events, invocations: how many are taken back.
        revision: of the session the plan was made for; a rewind of another revision is refused.
        keys: session keys that get another value or are removed.
        files: session artifacts that have changed.
        shared, user_files, memory, effects: what stays as it is.
        differences: where ADK's own rewind would leave something else.
    """

    session_pk: int
    revision: int
    first: Event
    said: str
    events: int
    invocations: int
    keys: list[KeyPlan]
    files: list[FilePlan]
    shared: CountedList[SharedKey]
    user_files: list[str]
    memory: CountedList[RecallableEntry]
    effects: CountedList[ToolEffect]
    differences: list[AdkDifference]

    @property
    def invocation_id(self) -> str:
        """The invocation before which the session goes on."""
        return self.first.invocation_id

    @property
    def leaves_something(self) -> bool:
        """Tell whether anything that the rewound events did stays."""
        return bool(self.shared.count or self.user_files or self.memory.count or self.effects.count)
