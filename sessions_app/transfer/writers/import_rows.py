"""Rows that an import writes: events, their ledger, and the owners of state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.backends.utils import CursorWrapper

from sessions_app import scopes
from sessions_app.events import EventRecord
from sessions_app.events.attribution import Writer
from sessions_app.ids import SessionKey
from sessions_app.models import (
    STATE_ROWS,
    AgentSession,
    AppScope,
    ChangeCause,
    Event,
    ImportedScope,
    ImportSource,
    Scope,
    StateChange,
    UserScope,
)
from sessions_app.search import indexing
from sessions_app.sessions.ledger import INSERT_CHANGE, UPSERT_KEY, KeyRow
from sessions_app.sessions.writes import PREVIEW_LIMIT

NO_SESSION = SessionKey("", "", "", "")
KEYS_PER_STATEMENT = 1_000
"""Most keys in one statement: databases limit its parameters."""


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """Event to append to a session, with its seq."""

    session: AgentSession
    seq: int
    record: EventRecord


@dataclass(slots=True)
class StateOwner:
    """Owner of state, whose row is locked.

    Attributes:
        row: the scope's row; for session keys the session.
        version: position of the source's last write.
        is_kept: another writer has written since: stored values stay, the source's are added to the history before.
    """

    scope: Scope
    row: Any
    version: int
    is_kept: bool = False

    @property
    def session(self) -> AgentSession | None:
        """The session, if it is the owner."""
        return self.row if self.scope is Scope.SESSION else None

    def take_version(self) -> None:
        """Take the position of the next write."""
        if not self.is_kept:
            self.version += 1


def session_owner(session: AgentSession, position: int) -> StateOwner:
    """Return a session as the owner of its keys."""
    return StateOwner(Scope.SESSION, session, position)


def lock_shared_owner(
    source: ImportSource, key: SessionKey, scope: Scope, *, make: bool
) -> StateOwner | None:
    """Return the user or app of a key, locked; None if it does not exist and `make` is false."""
    names = {"realm": key.realm, "app_name": key.app_name}
    manager: Any = AppScope.objects
    if scope is Scope.USER:
        names["user_id"], manager = key.user_id, UserScope.objects
    row = manager.select_for_update().filter(**names).first()
    if row is None and make:
        row = manager.create(**names)
    if row is None:
        return None
    mark = ImportedScope.objects.filter(source=source, scope=scope, owner_id=row.pk).first()
    version = mark.version if mark else 0
    return StateOwner(scope, row, version, is_kept=row.version != version)


def save_versions(source: ImportSource, owner: StateOwner) -> None:
    """Save an owner's version, and the source as its only writer."""
    if owner.is_kept:
        return
    owner.row.version = owner.version
    owner.row.save(update_fields=["version"])
    ImportedScope.objects.update_or_create(
        scope=owner.scope, owner_id=owner.row.pk, defaults={"source": source, "version": owner.version}
    )


def event_row(arrival: PendingEvent, app: StateOwner | None, user: StateOwner | None) -> Event:
    """Return the row of an event. `app` and `user` have the versions that the event saw."""
    record = arrival.record
    return Event(
        session=arrival.session,
        seq=arrival.seq,
        event_id=record.event_id,
        invocation_id=record.invocation_id,
        author=record.author,
        kind=record.kind,
        timestamp=record.timestamp,
        branch=record.branch,
        app_version=app.version if app else 0,
        user_version=user.version if user else 0,
        is_final=record.is_final,
        total_tokens=record.total_tokens,
        summary=record.summary,
        data=record.data,
        private=record.private,
    )


def count_event(arrival: PendingEvent) -> None:
    """Update the session's counters with an event, as `writes.append_event` does."""
    session, record = arrival.session, arrival.record
    preview = " ".join(record.text.split())[:PREVIEW_LIMIT]
    if record.author == "user":
        session.first_text = session.first_text or preview
    session.last_text = preview or session.last_text
    session.error_count += record.is_error
    session.total_tokens += record.total_tokens
    session.updated_at = record.timestamp
    session.last_seq = arrival.seq
    session.revision += 1


def save_sessions(sessions: Iterable[AgentSession]) -> None:
    """Save what `count_event` changed."""
    fields = ["first_text", "last_text", "error_count", "total_tokens", "updated_at", "last_seq", "revision"]
    for session in sessions:
        session.save(update_fields=fields)


@dataclass(frozen=True, slots=True)
class KeyWrite:
    """Write of one key to the state and the ledger.

    Attributes:
        is_past: write only to the ledger, since the state has a newer value.
    """

    owner: StateOwner
    position: int
    key: str
    value: scopes.CanonicalValue
    timestamp: float
    writer: Writer
    removed: bool = False
    arrival: PendingEvent | None = None
    for_key: SessionKey = NO_SESSION
    is_past: bool = False


def store_writes(writes: Sequence[KeyWrite]) -> None:
    """Write keys to the ledger, and to the state unless it has newer values."""
    with connection.cursor() as cursor:
        if writes:
            cursor.executemany(INSERT_CHANGE, [_ledger_row(write) for write in writes])
        for scope in STATE_ROWS:
            newest = {
                (write.owner.row.pk, scopes.key_id(write.key)): write
                for write in writes
                if write.owner.scope is scope and not write.is_past
            }
            newer = _newer_keys(scope, [write for write in newest.values() if write.owner.is_kept])
            _store_state(cursor, scope, [write for place, write in newest.items() if place not in newer])
    indexing.put_values(_index_entry(write) for write in writes if _session_of(write) is None)


def _newer_keys(scope: Scope, writes: Iterable[KeyWrite]) -> set[tuple[int, str]]:
    """Return the (owner, key_id) pairs that another writer has written since the source."""
    key_ids_by_owner: dict[tuple[int, int], list[str]] = {}
    for write in writes:
        owner = (write.owner.row.pk, write.owner.version)
        key_ids_by_owner.setdefault(owner, []).append(scopes.key_id(write.key))
    newer: set[tuple[int, str]] = set()
    for (owner_id, version), key_ids in key_ids_by_owner.items():
        rows = StateChange.objects.filter(scope=scope, owner_id=owner_id, position__gt=version)
        for start in range(0, len(key_ids), KEYS_PER_STATEMENT):
            some = rows.filter(key_id__in=key_ids[start : start + KEYS_PER_STATEMENT])
            newer.update((owner_id, key_id) for key_id in some.values_list("key_id", flat=True).distinct())
    return newer


def _store_state(cursor: CursorWrapper, scope: Scope, writes: Sequence[KeyWrite]) -> None:
    rows = [
        KeyRow(
            write.key,
            scopes.key_id(write.key),
            write.value.public,
            write.value.private,
            write.value.note,
            write.position,
            write.owner.row.pk,
        )
        for write in writes
        if not write.removed
    ]
    if rows:
        cursor.executemany(UPSERT_KEY[scope], rows)
    removed: dict[int, list[str]] = {}
    for write in writes:
        if write.removed:
            removed.setdefault(write.owner.row.pk, []).append(scopes.key_id(write.key))
    for owner_id, key_ids in removed.items():
        for start in range(0, len(key_ids), KEYS_PER_STATEMENT):
            here = STATE_ROWS[scope]._default_manager.filter(owner=owner_id)
            here.filter(key_id__in=key_ids[start : start + KEYS_PER_STATEMENT]).delete()


def _session_of(write: KeyWrite) -> AgentSession | None:
    return write.arrival.session if write.arrival else write.owner.session


def _index_entry(write: KeyWrite) -> StateChange:
    """Return the entry of a write for the search index."""
    return StateChange(
        scope=write.owner.scope,
        key_id=scopes.key_id(write.key),
        owner_id=write.owner.row.pk,
        value=None if write.removed else write.value.public,
    )


def _ledger_row(write: KeyWrite) -> tuple[str | float | None, ...]:
    """Return the values of a ledger row in the order of `INSERT_CHANGE`."""
    session, arrival = _session_of(write), write.arrival
    record = arrival.record if arrival else None
    return (
        str(write.owner.scope),
        write.owner.row.pk,
        write.key,
        scopes.key_id(write.key),
        write.position,
        None if write.removed else write.value.public,
        None if write.removed else write.value.private,
        write.value.note,
        write.removed,
        str(ChangeCause.IMPORT),
        write.timestamp,
        session.pk if session else None,
        arrival.session.user_id if arrival else write.for_key.user_id,
        arrival.session.session_id if arrival else write.for_key.session_id,
        arrival.seq if arrival else 0,
        record.event_id if record else "",
        record.invocation_id if record else "",
        record.author if record else "",
        write.writer.kind,
        scopes.clean_text(write.writer.name),
        scopes.clean_text(write.writer.call_id),
        write.writer.inferred,
    )
