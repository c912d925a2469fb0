"""SQL and rows for the keys of an append: the state of their scopes, and one ledger row each.

Used by `sessions_app.store.sessions.writes`; imports use its statements to write many sessions at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sessions_app.store import scopes
from sessions_app.store.database.statements import (
    Statements,
    bulk_insert_sql,
    insert_sql,
    unnest_sql,
)
from sessions_app.store.events import EventRecord, StateWrite, TempKeyWrite
from sessions_app.store.models import STATE_ROWS, ChangeCause, Scope, StateChange, TempWrite
from sessions_app.store.session_key import SessionKey


class Provenance(NamedTuple):
    """The values shared by all ledger rows of a write."""

    key: SessionKey
    session_pk: int | None
    seq: int
    timestamp: float
    cause: ChangeCause
    event_id: str = ""
    invocation_id: str = ""
    author: str = ""

    @classmethod
    def of(
        cls, key: SessionKey, session_pk: int, seq: int, record: EventRecord, cause: ChangeCause
    ) -> Provenance:
        """Return the provenance of an event's rows."""
        ids = (record.event_id, record.invocation_id, record.author)
        return cls(key, session_pk, seq, record.timestamp, cause, *ids)


class OwnerPositions(NamedTuple):
    """The owners of state, each with the position of this write, or its current version if its scope is not written."""

    ids: dict[Scope, int]
    positions: dict[Scope, int]


SHARED = {Scope.USER: ("realm", "app_name", "user_id"), Scope.APP: ("realm", "app_name")}
"""Scopes that sessions share, in lock order, with the columns that name an owner."""

_OWNERS = [
    (Scope.USER, "sessions_app_userscope", ", ".join(SHARED[Scope.USER])),
    (Scope.APP, "sessions_app_appscope", ", ".join(SHARED[Scope.APP])),
]
_TAKE_OWNER = {
    scope: f"INSERT INTO {table} ({names}, version) VALUES ({', '.join(['%s'] * len(SHARED[scope]))}, 1)"  # noqa: S608 - our own tables
    f" ON CONFLICT ({names}) DO UPDATE SET version = {table}.version + 1 RETURNING id, version"
    for scope, table, names in _OWNERS
}
_FIND_OWNER = {
    scope: f"SELECT id, version FROM {table} WHERE {' AND '.join(f'{name} = %s' for name in SHARED[scope])}"  # noqa: S608 - our own tables
    for scope, table, _ in _OWNERS
}
TAKE_OWNERS = {
    scope: f"INSERT INTO {table} ({names}, version)"  # noqa: S608 - our own tables
    f" SELECT * FROM {unnest_sql([*['text'] * len(SHARED[scope]), 'bigint'])} AS n"
    f" ON CONFLICT ({names}) DO UPDATE SET version = {table}.version + excluded.version"
    f" RETURNING id, version, {names}"
    for scope, table, names in _OWNERS
}
"""Increments the versions of many owners and locks them in the given order; returns (id, last version, names)."""

FIND_OWNERS = {
    scope: f"SELECT id, version, {names} FROM {table}"  # noqa: S608 - our own tables
    f" JOIN {unnest_sql(['text'] * len(SHARED[scope]))} AS n({names}) USING ({names})"
    for scope, table, names in _OWNERS
}
"""Reads many owners; returns (id, version, names)."""


def take_owners(
    cursor: Statements, key: SessionKey, session_pk: int, writes: Sequence[StateWrite], position: int
) -> OwnerPositions:
    """Increment the version of each written shared scope (under its row lock), and read that of the others."""
    written_scopes = {write.scope for write in writes}
    ids, positions = {Scope.SESSION: session_pk}, {Scope.SESSION: position}
    rows = cursor.first_rows(
        *(
            ((_TAKE_OWNER if scope in written_scopes else _FIND_OWNER)[scope], key[: len(names)])
            for scope, names in SHARED.items()
        )
    )
    for scope, row in zip(SHARED, rows, strict=True):
        if row is not None:
            ids[scope], positions[scope] = row
    return OwnerPositions(ids, positions)


_REPLACE = (
    " ON CONFLICT (owner_id, key_id) DO UPDATE SET value = excluded.value, private = excluded.private,"
    " note = excluded.note, position = excluded.position"
)
UPSERT_KEY = {scope: insert_sql(table) + _REPLACE for scope, table in STATE_ROWS.items()}
"""Upserts a `KeyRow` in the state of a scope."""

UPSERT_KEYS = {scope: bulk_insert_sql(table) + _REPLACE for scope, table in STATE_ROWS.items()}
"""Upserts many different keys in the state of a scope."""

_REMOVE_KEY = {
    scope: f"DELETE FROM {table._meta.db_table} WHERE owner_id = %s AND key_id = %s"  # noqa: S608 - our own tables
    for scope, table in STATE_ROWS.items()
}
REMOVE_KEYS = {
    scope: f"DELETE FROM {table._meta.db_table} t USING {unnest_sql(['bigint', 'text'])} AS gone(owner_id, key_id)"  # noqa: S608 - our own tables
    " WHERE t.owner_id = gone.owner_id AND t.key_id = gone.key_id"
    for scope, table in STATE_ROWS.items()
}
"""Deletes many keys, named by (owner, key_id), from the state of a scope."""

INSERT_CHANGE, INSERT_CHANGES = insert_sql(StateChange), bulk_insert_sql(StateChange)
"""Insert a row of `change_row`, or many."""

_INSERT_TEMP, INSERT_TEMPS = insert_sql(TempWrite), bulk_insert_sql(TempWrite)
"""Insert a row of `temp_rows`, or many."""


def write_keys(
    cursor: Statements, owners: OwnerPositions, writes: Iterable[StateWrite], provenance: Provenance
) -> None:
    """Write each key to the state of its scope and to the ledger."""
    changes = []
    for write in writes:
        row = state_row(write, owners)
        if write.removed:
            cursor.execute(_REMOVE_KEY[write.scope], (row.owner_id, row.key_id))
        else:
            cursor.execute(UPSERT_KEY[write.scope], row)
        changes.append(change_row(write, row, provenance))
    if changes:
        cursor.executemany(INSERT_CHANGE, changes)


class KeyRow(NamedTuple):
    """A key's row in the state of its scope."""

    key: str
    key_id: str
    value: str
    private: str | None
    note: str
    position: int
    owner_id: int


def state_row(write: StateWrite, owners: OwnerPositions) -> KeyRow:
    """Return the state row of a key."""
    value, key_id = write.value, scopes.key_id(write.key)
    position, owner_id = owners.positions[write.scope], owners.ids[write.scope]
    return KeyRow(write.key, key_id, value.public, value.private, value.note, position, owner_id)


def change_row(
    write: StateWrite, row: KeyRow, provenance: Provenance
) -> tuple[str | int | float | None, ...]:
    """Return the ledger row of a key: the columns of `StateChange`."""
    writer = write.writer
    return (
        str(write.scope),
        row.owner_id,
        row.key,
        row.key_id,
        row.position,
        None if write.removed else row.value,
        None if write.removed else row.private,
        row.note,
        write.removed,
        str(provenance.cause),
        provenance.timestamp,
        provenance.session_pk,
        provenance.key.user_id,
        provenance.key.session_id,
        provenance.seq,
        provenance.event_id,
        provenance.invocation_id,
        provenance.author,
        writer.kind,
        scopes.clean_text(writer.name),
        scopes.clean_text(writer.call_id),
        writer.inferred,
    )


def insert_temp(cursor: Statements, temp: Iterable[TempKeyWrite], provenance: Provenance) -> None:
    """Store the `temp:` keys of an event as ghost keys: they are part of no state and no ledger."""
    rows = temp_rows(temp, provenance)
    if rows:
        cursor.executemany(_INSERT_TEMP, rows)


def temp_rows(temp: Iterable[TempKeyWrite], provenance: Provenance) -> list[tuple[str | int | None, ...]]:
    """Return the rows of an event's `temp:` keys: the columns of `TempWrite`."""
    return [
        (
            provenance.session_pk,
            provenance.seq,
            provenance.invocation_id,
            ghost.key,
            ghost.value.public,
            ghost.value.note,
            provenance.author,
            ghost.writer.kind,
            scopes.clean_text(ghost.writer.name),
            scopes.clean_text(ghost.writer.call_id),
        )
        for ghost in temp
    ]
