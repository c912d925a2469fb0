"""Rows that an import writes: events, their ledger, and the owners of state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.backends.utils import CursorWrapper

from sessions_app.sessions import judgements
from sessions_app.store import events
from sessions_app.store.errors import BadInput
from sessions_app.store.events import EventRecord
from sessions_app.store.index import index_entries
from sessions_app.store.models import (
    STATE_ROWS,
    AgentSession,
    AppScope,
    ChangeCause,
    ImportedScope,
    ImportSource,
    Scope,
    StateChange,
    UserScope,
)
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import event_rows
from sessions_app.store.sessions.ledger import (
    INSERT_CHANGE,
    UPSERT_KEY,
    KeyRow,
    OwnerPositions,
    Provenance,
    change_row,
    state_row,
)
from sessions_app.transfer.readers.records import StoredJudgement

_SHARED = (Scope.USER, Scope.APP)

KEYS_PER_STATEMENT = 1_000
"""Most keys in one statement: databases limit its parameters."""


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """Event to append to a session, with its seq and the judgement of a person on it."""

    session: AgentSession
    seq: int
    record: EventRecord
    judgement: StoredJudgement | None = None


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


def store_events(events_with_owners: Sequence[tuple[PendingEvent, OwnerPositions]]) -> None:
    """Append events to their sessions. The owners have the versions that each event saw."""
    with connection.cursor() as cursor:
        rows = [event_rows.event_row(owners, event.seq, event.record) for event, owners in events_with_owners]
        cursor.executemany(event_rows.INSERT_EVENT, rows)
        counts = [
            event_rows.advance(event.session.pk, event.seq, event.record) for event, _ in events_with_owners
        ]
        cursor.executemany(event_rows.ADVANCE_SESSION, counts)


def store_judgements(arrivals: Iterable[PendingEvent]) -> None:
    """Store the judgements on events, without those that this store does not allow."""
    for arrival in arrivals:
        if arrival.judgement:
            with suppress(BadInput):
                judgements.restore(arrival.session.pk, arrival.seq, *arrival.judgement)


@dataclass(frozen=True, slots=True)
class ImportedWrite:
    """Write of one key to the state of its owner, and its row in the ledger.

    Attributes:
        is_past: write only to the ledger, since the state has a newer value.
    """

    owner: StateOwner
    change: StateChange
    is_past: bool = False

    @property
    def place(self) -> tuple[int, str]:
        """The key in its scope."""
        return self.change.owner_id, self.change.key_id


def event_write(owner: StateOwner, write: events.StateWrite, arrival: PendingEvent) -> ImportedWrite:
    """Return a key's write by an event."""
    session = arrival.session
    key = session.key
    provenance = Provenance.of(key, session.pk, arrival.seq, arrival.record, ChangeCause.IMPORT)
    return ImportedWrite(owner, ledger_row(owner, owner.version, write, provenance))


def ledger_row(
    owner: StateOwner, position: int, write: events.StateWrite, provenance: Provenance
) -> StateChange:
    """Return the ledger row of a write."""
    owners = OwnerPositions({write.scope: owner.row.pk}, {write.scope: position})
    values = change_row(write, state_row(write, owners), provenance)
    return StateChange(**dict(zip(_CHANGE_COLUMNS, values, strict=True)))


_CHANGE_COLUMNS = [field.attname for field in StateChange._meta.concrete_fields if not field.primary_key]


def store_writes(writes: Sequence[ImportedWrite]) -> None:
    """Write keys to the ledger, and to the state unless it has newer values."""
    if not writes:
        return
    with connection.cursor() as cursor:
        rows = [[getattr(write.change, name) for name in _CHANGE_COLUMNS] for write in writes]
        cursor.executemany(INSERT_CHANGE, rows)
        for scope in STATE_ROWS:
            of_scope = [write for write in writes if write.owner.scope is scope and not write.is_past]
            newest = {write.place: write for write in of_scope}
            newer_keys = _newer_keys(scope, [write for write in newest.values() if write.owner.is_kept])
            stored = [write.change for key, write in newest.items() if key not in newer_keys]
            _store_state(cursor, scope, stored)
    index_entries.put_values(write.change for write in writes if write.change.session_id is None)


def _newer_keys(scope: Scope, writes: Iterable[ImportedWrite]) -> set[tuple[int, str]]:
    """Return the (owner, key_id) pairs that another writer has written since the source."""
    key_ids_by_owner: dict[tuple[int, int], list[str]] = {}
    for write in writes:
        owner = (write.owner.row.pk, write.owner.version)
        key_ids_by_owner.setdefault(owner, []).append(write.change.key_id)
    newer: set[tuple[int, str]] = set()
    for (owner_id, version), key_ids in key_ids_by_owner.items():
        rows = StateChange.objects.filter(scope=scope, owner_id=owner_id, position__gt=version)
        for batch in key_batches(key_ids):
            newer_ids = rows.filter(key_id__in=batch).values_list("key_id", flat=True).distinct()
            newer.update((owner_id, key_id) for key_id in newer_ids)
    return newer


def _store_state(cursor: CursorWrapper, scope: Scope, changes: Sequence[StateChange]) -> None:
    rows = [[getattr(change, name) for name in KeyRow._fields] for change in changes if not change.removed]
    if rows:
        cursor.executemany(UPSERT_KEY[scope], rows)
    removed: dict[int, list[str]] = {}
    for change in changes:
        if change.removed:
            removed.setdefault(change.owner_id, []).append(change.key_id)
    for owner_id, key_ids in removed.items():
        for batch in key_batches(key_ids):
            STATE_ROWS[scope]._default_manager.filter(owner=owner_id, key_id__in=batch).delete()


def key_batches(key_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield keys in batches for one statement each."""
    for start in range(0, len(key_ids), KEYS_PER_STATEMENT):
        yield key_ids[start : start + KEYS_PER_STATEMENT]


class StateOwners:
    """Users and apps of a batch, locked in a fixed order: users, then apps, each sorted."""

    def __init__(self, source: ImportSource, arrivals: Sequence[PendingEvent]) -> None:
        """Lock the owners, and create missing ones that the batch writes."""
        self._source = source
        self._owners: dict[tuple[Scope, SessionKey], StateOwner | None] = {}
        written_owners = {
            (write.scope, _owner_key(write.scope, arrival.session))
            for arrival in arrivals
            for write in arrival.record.writes
        }
        for scope in _SHARED:
            for name in sorted({_owner_key(scope, arrival.session) for arrival in arrivals}):
                make = (scope, name) in written_owners
                self._owners[scope, name] = lock_shared_owner(source, name, scope, make=make)
        self._written = written_owners

    def writes(self, arrival: PendingEvent) -> Iterator[ImportedWrite]:
        """Yield the writes of an event. Each shared scope that it writes gets its next version."""
        session, record = arrival.session, arrival.record
        owners: dict[Scope, StateOwner] = {Scope.SESSION: session_owner(session, arrival.seq)}
        for scope in _SHARED:
            owner = self._owners[scope, _owner_key(scope, session)]
            if owner and any(write.scope is scope for write in record.writes):
                owner.take_version()
                owners[scope] = owner
        for write in record.writes:
            yield event_write(owners[write.scope], write, arrival)

    def positions(self, session: AgentSession) -> OwnerPositions:
        """Return the present versions of a session's app and user."""
        owners = {scope: self._owners[scope, _owner_key(scope, session)] for scope in _SHARED}
        versions = {scope: owner.version for scope, owner in owners.items() if owner}
        return OwnerPositions({Scope.SESSION: session.pk}, versions)

    def save_versions(self) -> None:
        """Save the versions of the written owners."""
        for (scope, name), owner in self._owners.items():
            if owner and (scope, name) in self._written:
                save_versions(self._source, owner)


def _owner_key(scope: Scope, session: AgentSession) -> SessionKey:
    """Return the key of a session's user or app, with the other fields empty."""
    user = session.user_id if scope is Scope.USER else ""
    return SessionKey(session.realm, session.app_name, user, "")
