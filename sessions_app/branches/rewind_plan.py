"""Data classes of a rewind plan, which `rewind.plan_rewind` fills."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from sessions_app.store.models import Event, StateChange

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A stored JSON value. `private` is the full text if `public` omits a credential."""

    public: str
    private: str | None = None
    note: str = ""

    @classmethod
    def of(cls, row: StateChange) -> StoredValue:
        """Return the value of a ledger row."""
        return cls(row.value or "null", row.private, row.note)

    @property
    def whole(self) -> str:
        """The full text, which is compared and restored."""
        return self.public if self.private is None else self.private


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """A session key whose value has changed. None: the key does not exist at that point."""

    key: str
    now: StoredValue | None
    then: StoredValue | None


class FileOutcome(StrEnum):
    """Effect of a rewind on a file. Saved versions are never deleted."""

    RESTORED = "restored"
    HIDDEN = "hidden"
    LOST = "lost"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class FilePlan:
    """An artifact of the session that the rewound events changed.

    Attributes:
        now, then: its versions; `then` is None if it did not exist.
        outcome: restored: the old content is saved as a new version. hidden: a new version marks the file as absent, as
            in ADK. lost: hidden, because the old version does not exist any more. elsewhere: unchanged, because another
            artifact service owns the file.
    """

    name: str
    now: int
    then: int | None
    outcome: FileOutcome


@dataclass(frozen=True, slots=True)
class SharedKey:
    """A `user:` or `app:` key that the rewound events wrote; the rewind does not change it."""

    scope: str
    key: str
    name: str
    before: StoredValue | None
    now: StoredValue | None


@dataclass(frozen=True, slots=True)
class ToolEffect:
    """A tool call of the rewound events; its external effects are not undone."""

    seq: int
    event_id: str
    tool: str
    args: dict[str, str]


@dataclass(frozen=True, slots=True)
class RecallableEntry:
    """A memory entry added since the first rewound event; agents can still recall it."""

    pk: int
    entry_id: str
    timestamp: float
    text: str


@dataclass(frozen=True, slots=True)
class CountedList(Generic[T]):
    """The first entries of a list, and the total count."""

    first: list[T]
    count: int

    @property
    def more(self) -> int:
        """Number of entries that are not shown."""
        return self.count - len(self.first)


@dataclass(frozen=True, slots=True)
class RewindPlan:
    """Plan of a rewind to before an invocation.

    Attributes:
        first: the first event of the invocation; it and all later events are rewound, and remain in the history.
        events, invocations: number of rewound events and invocations.
        first_message: start of the user's first message in the rewound events; empty if there is none.
        revision: the session's revision; a rewind of another revision is refused.
        keys: session keys that change or are removed.
        files: session artifacts that change.
        shared, user_files, memory, effects: what the rewind does not undo.
    """

    session_pk: int
    revision: int
    first: Event
    first_message: str
    events: int
    invocations: int
    keys: list[KeyPlan]
    files: list[FilePlan]
    shared: CountedList[SharedKey]
    user_files: list[str]
    memory: CountedList[RecallableEntry]
    effects: CountedList[ToolEffect]

    @property
    def invocation_id(self) -> str:
        """The invocation before which the session continues."""
        return self.first.invocation_id

    @property
    def leaves_something(self) -> bool:
        """Tell whether any effect of the rewound events remains."""
        return bool(self.shared.count or self.user_files or self.memory.count or self.effects.count)
