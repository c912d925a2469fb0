"""Schemas of state: values, writers, differences, drift. Times as in `schemas`."""

from __future__ import annotations

from typing import Annotated, Any

from ninja import Schema
from pydantic import BeforeValidator, Field

from sessions_app.api.schemas import DECODED, IS_SET, decode_json
from sessions_app.store.models import Scope, StateChange, UntrackedKey
from sessions_app.store.scopes import PREFIX
from sessions_app.store.state.drift import Drift

Value = Annotated[Any, DECODED]


def _full_key(row: StateChange | UntrackedKey) -> str:
    """Return the key of a row with its prefix."""
    return PREFIX[Scope(row.scope)] + row.key


def _row_value(row: StateChange | None) -> Any:
    """Return the value that a row of the ledger wrote; None without a row."""
    return None if row is None else decode_json(row.value)


class StateOut(Schema):
    """State merged as agents read it, and by scope; without credentials."""

    seq: int = Field(description="Sequence number of the event, or of the newest event.")
    event_id: str | None = Field(description="The requested event; null: now.")
    revision: int = Field(description="Current revision of the session: a condition for changes.")
    merged: dict[str, Any]
    scopes: dict[str, dict[str, Any]] = Field(description="session, user, app: keys without their prefix.")


class WriterOut(Schema):
    """Writer of a key."""

    kind: str = Field(validation_alias="writer")
    name: str = Field(validation_alias="writer_name")
    call_id: str
    inferred: bool = Field(description="Inferred from the event; no recorder observed the write.")


class ChangeOut(Schema):
    """One write of a key."""

    position: int = Field(description="Order among the writes of this key's owner.")
    value: Value
    removed: bool
    cause: str
    note: str = Field(description="How the value was converted to JSON.")
    time: float = Field(validation_alias="timestamp")
    user: str = Field(validation_alias="from_user")
    session: str = Field(validation_alias="from_session")
    seq: int
    event_id: str
    invocation_id: str
    author: str
    writer: WriterOut

    resolve_writer = staticmethod(lambda row: row)  # its columns


class KeyOut(Schema):
    """A key, its value and its last write."""

    key: str = Field(description="With its prefix.")
    scope: str
    value: Value
    note: str = Field(description="How the value was converted to JSON.")
    last_write: ChangeOut

    resolve_key = staticmethod(_full_key)
    resolve_last_write = staticmethod(lambda row: row)


class Keys(Schema):
    """The keys of a session's scopes at a point in time: session, user, app, each sorted."""

    seq: int
    event_id: str | None
    keys: list[KeyOut]


class OwnerState(Schema):
    """Current shared state of an app or a user."""

    app: str
    user: str | None
    version: int = Field(description="Number of commits that wrote it.")
    state: dict[str, Any] = Field(description="Keys without their prefix.")
    keys: list[KeyOut]


class EditOut(Schema):
    """A change by hand: the appended event."""

    key: Annotated[str, BeforeValidator(_full_key)] = Field(validation_alias="change")
    removed: bool = Field(validation_alias="change.removed")
    value: Value = Field(validation_alias="change.value")
    position: int = Field(
        validation_alias="change.position", description="Order among the writes of this key's owner."
    )
    event_id: str
    seq: int = Field(validation_alias="appended.seq")
    revision: int = Field(
        validation_alias="appended.revision", description="Revision of the session after the change."
    )


class KeyDiffOut(Schema):
    """A key that differs. `old` or `new`, and its write, is null if the key has no value."""

    key: str = Field(validation_alias="name", description="With its prefix.")
    scope: str
    change: str = Field(description="added, changed or removed.")
    old: Annotated[Any, BeforeValidator(_row_value)]
    new: Annotated[Any, BeforeValidator(_row_value)]
    hidden: bool = Field(
        validation_alias="is_hidden", description="Only credentials differ; they are not returned."
    )
    old_write: ChangeOut | None = Field(validation_alias="old")
    new_write: ChangeOut | None = Field(validation_alias="new")


class DiffOut(Schema):
    """Differences between two points in a session, in every scope."""

    from_seq: int = Field(description="0: the start, before the first event.")
    from_event_id: str | None
    to_seq: int
    to_event_id: str | None = Field(description="null: now.")
    changes: list[KeyDiffOut]


class KeyDriftOut(Schema):
    """A key whose stored value differs from the fold of the session's own events."""

    key: str = Field(validation_alias="name", description="With its prefix.")
    scope: str
    has_stored: Annotated[bool, IS_SET] = Field(validation_alias="stored")
    stored: Value
    has_folded: bool | None = Field(
        description="null: unknown, the session's last write is too long ago to look up; `fold=events` finds it."
    )
    folded: Value = Field(description="Value by the events. For a removed key: null.")
    cause: str = Field(
        validation_alias="why",
        description="seed, other_session, import, fork, removed, rewind, or foreign: not changed by DevUI.",
    )
    last_write: ChangeOut | None = Field(validation_alias="change")

    @staticmethod
    def resolve_has_folded(entry: Drift) -> bool | None:
        """Return whether the events gave the key a value; None: unknown."""
        return entry.folded is not None if entry.is_known else None


class UntrackedOut(Schema):
    """A key that an invocation changed without an event, so the change was not stored."""

    key: str = Field(description="With its prefix.")
    scope: str
    removed: Annotated[bool, BeforeValidator(lambda value: value is None)] = Field(
        validation_alias="value", description="The key was removed."
    )
    value: Value
    has_stored: Annotated[bool, IS_SET] = Field(validation_alias="stored")
    stored: Value = Field(description="Value that events had stored.")
    invocation_id: str
    seq: int = Field(description="The session's last event when the invocation ended.")
    time: float = Field(validation_alias="noticed_at")

    resolve_key = staticmethod(_full_key)


class DriftOut(Schema):
    """Differences between the stored state and the fold of the session's own events."""

    keys: list[KeyDriftOut] = Field(
        validation_alias="drifts",
        description="Drift: no event, seed, fork, removal or other session explains the value.",
    )
    explained: list[KeyDriftOut] = Field(
        validation_alias="explained_drifts",
        description="Expected differences: `cause` names the source of the value.",
    )
    untracked: list[UntrackedOut] = Field(description="Newest first, the last 200.")
    untracked_count: int = Field(description="Number of all untracked keys.")


class HistoryPage(Schema):
    """The writes of one key, newest first; of a `user:` or `app:` key across all sessions."""

    key: str
    changes: list[ChangeOut]
    next: int | None = Field(description="Pass it as `before` for the next page; null: this was the last.")
