"""Schemas of state: values, writers, differences, drift, lint hints. Times as in `schemas`."""

from __future__ import annotations

import json
from typing import Any, Self

from ninja import Schema
from pydantic import Field

from sessions_app.api.schemas import RowSchema
from sessions_app.sessions.state_edits import StateEdit
from sessions_app.state import lint
from sessions_app.store.models import AgentSession, Event, Scope, StateChange
from sessions_app.store.scopes import PREFIX
from sessions_app.store.state.differences import KeyDiff
from sessions_app.store.state.drift import Drift, DriftReport


class StateOut(Schema):
    """State merged as agents read it, and by scope; without credentials."""

    seq: int = Field(description="Sequence number of the event, or of the newest event.")
    event_id: str | None = Field(description="The requested event; null: now.")
    revision: int = Field(description="Current revision of the session: a condition for changes.")
    merged: dict[str, Any]
    scopes: dict[str, dict[str, Any]] = Field(description="session, user, app: keys without their prefix.")


class WriterOut(Schema):
    """Writer of a key."""

    kind: str
    name: str
    call_id: str
    inferred: bool = Field(description="Inferred from the event; no recorder observed the write.")


class ChangeOut(RowSchema):
    """One write of a key."""

    position: int = Field(description="Order among the writes of this key's owner.")
    value: Any
    removed: bool
    cause: str
    note: str = Field(description="How the value was converted to JSON.")
    time: float
    user: str
    session: str
    seq: int
    event_id: str
    invocation_id: str
    author: str
    writer: WriterOut

    @classmethod
    def of(cls, row: StateChange) -> Self:
        """Return the schema of a ledger row."""
        return cls.from_row(
            row,
            value=_value(row.value),
            time=row.timestamp,
            user=row.from_user,
            session=row.from_session,
            writer=WriterOut(
                kind=row.writer, name=row.writer_name, call_id=row.call_id, inferred=row.inferred
            ),
        )


class KeyOut(Schema):
    """A key, its value and its last write."""

    key: str = Field(description="With its prefix.")
    scope: str
    value: Any
    note: str = Field(description="How the value was converted to JSON.")
    last_write: ChangeOut


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

    key: str
    removed: bool
    value: Any
    position: int = Field(description="Order among the writes of this key's owner.")
    event_id: str
    seq: int
    revision: int = Field(description="Revision of the session after the change.")

    @classmethod
    def of(cls, edited: StateEdit) -> Self:
        """Return the schema of a change."""
        change = edited.change
        return cls(
            key=PREFIX[Scope(change.scope)] + change.key,
            removed=change.removed,
            value=_value(change.value),
            position=change.position,
            event_id=edited.event_id,
            seq=edited.appended.seq,
            revision=edited.appended.revision,
        )


class KeyDiffOut(Schema):
    """A key that differs. `old` or `new`, and its write, is null if the key has no value."""

    key: str = Field(description="With its prefix.")
    scope: str
    change: str = Field(description="added, changed or removed.")
    old: Any
    new: Any
    hidden: bool = Field(description="Only credentials differ; they are not returned.")
    old_write: ChangeOut | None
    new_write: ChangeOut | None

    @classmethod
    def of(cls, entry: KeyDiff) -> Self:
        """Return the schema of a difference."""
        old, new = (None if row is None else ChangeOut.of(row) for row in (entry.old, entry.new))
        return cls(
            key=entry.name,
            scope=str(entry.scope),
            change=entry.change,
            old=old and old.value,
            new=new and new.value,
            hidden=entry.is_hidden,
            old_write=old,
            new_write=new,
        )


class DiffOut(Schema):
    """Differences between two points in a session, in every scope."""

    from_seq: int = Field(description="0: the start, before the first event.")
    from_event_id: str | None
    to_seq: int
    to_event_id: str | None = Field(description="null: now.")
    changes: list[KeyDiffOut]

    @classmethod
    def of(
        cls, session: AgentSession, before: Event | None, after: Event | None, differences: list[KeyDiff]
    ) -> Self:
        """Return the schema of the differences."""
        return cls(
            from_seq=before.seq if before else 0,
            from_event_id=before.event_id if before else None,
            to_seq=after.seq if after else session.last_seq,
            to_event_id=after.event_id if after else None,
            changes=[KeyDiffOut.of(entry) for entry in differences],
        )


class KeyDriftOut(Schema):
    """A key whose stored value differs from the fold of the session's own events."""

    key: str = Field(description="With its prefix.")
    scope: str
    has_stored: bool
    stored: Any
    has_folded: bool | None = Field(
        description="null: unknown, the session's last write is too long ago to look up; `fold=events` finds it."
    )
    folded: Any = Field(description="Value by the events. For a removed key: null.")
    cause: str = Field(
        description="seed, other_session, import, fork, removed, rewind, or foreign: not changed by DevUI."
    )
    last_write: ChangeOut | None

    @classmethod
    def of(cls, entry: Drift) -> Self:
        """Return the schema of a key's drift."""
        return cls(
            key=entry.name,
            scope=str(entry.scope),
            has_stored=entry.stored is not None,
            stored=_value(entry.stored),
            has_folded=entry.folded is not None if entry.is_known else None,
            folded=_value(entry.folded),
            cause=str(entry.why),
            last_write=ChangeOut.of(entry.change) if entry.change else None,
        )


class UntrackedOut(RowSchema):
    """A key that an invocation changed without an event, so the change was not stored."""

    key: str = Field(description="With its prefix.")
    scope: str
    removed: bool = Field(description="The key was removed.")
    value: Any
    has_stored: bool
    stored: Any = Field(description="Value that events had stored.")
    invocation_id: str
    seq: int = Field(description="The session's last event when the invocation ended.")
    time: float


class DriftOut(Schema):
    """Differences between the stored state and the fold of the session's own events."""

    keys: list[KeyDriftOut] = Field(
        description="Drift: no event, seed, fork, removal or other session explains the value."
    )
    explained: list[KeyDriftOut] = Field(
        description="Expected differences: `cause` names the source of the value."
    )
    untracked: list[UntrackedOut] = Field(description="Newest first, the last 200.")

    @classmethod
    def of(cls, report: DriftReport) -> Self:
        """Return the schema of a drift report."""
        return cls(
            keys=[KeyDriftOut.of(entry) for entry in report.drifts],
            explained=[KeyDriftOut.of(entry) for entry in report.explained_drifts],
            untracked=[
                UntrackedOut.from_row(
                    row,
                    key=PREFIX[Scope(row.scope)] + row.key,
                    removed=row.value is None,
                    value=_value(row.value),
                    has_stored=row.stored is not None,
                    stored=_value(row.stored),
                    time=row.noticed_at,
                )
                for row in report.untracked
            ],
        )


class EvidenceOut(Schema):
    """Evidence of a hint: an event of a session, or the session as a whole."""

    text: str
    session: int | None = Field(description="Key of the session; null: it was deleted.")
    session_id: str
    seq: int | None = Field(description="The event; null: the session as a whole.")


class HintOut(Schema):
    """A lint hint with its evidence and the alternative that ADK offers."""

    rule: str
    key: str = Field(description="The whole key with its prefix; empty: the rule itself failed.")
    message: str
    remedy: str
    evidence: list[EvidenceOut]

    @classmethod
    def of(cls, hint: lint.Hint) -> Self:
        """Return the schema of a hint."""
        return cls(
            rule=hint.rule.name,
            key=hint.name,
            message=hint.says,
            remedy=hint.rule.remedy,
            evidence=[
                EvidenceOut(
                    text=occurrence.text,
                    session=occurrence.session_pk,
                    session_id=occurrence.session_id,
                    seq=occurrence.seq or None,
                )
                for occurrence in hint.occurrences
            ],
        )


class LintOut(Schema):
    """Lint hints for a session's current state."""

    hints: list[HintOut]
    sizes: dict[str, int] = Field(description="Bytes of the values of each scope, in UTF-8.")
    unread: int = Field(description="Number of keys that were not checked because there are too many.")

    @classmethod
    def of(cls, report: lint.LintReport) -> Self:
        """Return the schema of a lint report."""
        return cls(
            hints=[HintOut.of(hint) for hint in report.hints], sizes=report.sizes, unread=report.unread
        )


class HistoryPage(Schema):
    """The writes of one key, newest first; of a `user:` or `app:` key across all sessions."""

    key: str
    changes: list[ChangeOut]
    next: int | None = Field(description="Pass it as `before` for the next page; null: this was the last.")


def _value(text: str | None) -> Any:
    return None if text is None else json.loads(text)
