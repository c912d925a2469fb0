"""The keys an append writes: to the state of their scopes and, one row each, to the ledger. Plain SQL.

Part of `sessions_app.writes`, which is the only door to it; imports write many sessions at once with its statements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sessions_app import state
from sessions_app.ids import SessionKey
from sessions_app.models import STATE_ROWS, Cause, Scope
from sessions_app.statements import Statements
from sessions_app.wire import EventRecord, KeyWrite, TempKey


class Provenance(NamedTuple):
    """What every ledger row of one write shares."""

    key: SessionKey
    session_pk: int
    seq: int
    timestamp: float
    cause: Cause
    event_id: str = ""
    invocation_id: str = ""
    author: str = ""

    @classmethod
    def of(cls, key: SessionKey, session_pk: int, seq: int, record: EventRecord, cause: Cause) -> Provenance:
        """Return what the rows of an event share."""
        return cls(
            key,
            session_pk,
            seq,
            record.timestamp,
            cause,
            record.event_id,
            record.invocation_id,
            record.author,
        )


class Taken(NamedTuple):
    """The rows that own state, each with the position of this write; a scope not written has its current version."""

    ids: dict[Scope, int]
    positions: dict[Scope, int]


_TAKE_USER = (
    "INSERT INTO sessions_app_userscope (realm, app_name, user_id, version) VALUES (%s, %s, %s, 1)"
    " ON CONFLICT (realm, app_name, user_id) DO UPDATE SET version = sessions_app_userscope.version + 1"
    " RETURNING id, version"
)
_TAKE_APP = (
    "INSERT INTO sessions_app_appscope (realm, app_name, version) VALUES (%s, %s, 1)"
    " ON CONFLICT (realm, app_name) DO UPDATE SET version = sessions_app_appscope.version + 1"
    " RETURNING id, version"
)
_SEE_USER = (
    "SELECT id, version FROM sessions_app_userscope WHERE realm = %s AND app_name = %s AND user_id = %s"
)
_SEE_APP = "SELECT id, version FROM sessions_app_appscope WHERE realm = %s AND app_name = %s"


def take_owners(
    cursor: Statements, key: SessionKey, session_pk: int, writes: Sequence[KeyWrite], position: int
) -> Taken:
    """Take a version of each shared scope that is written (under its row's lock) and see that of the other."""
    written = {write.scope for write in writes}
    ids, positions = {Scope.SESSION: session_pk}, {Scope.SESSION: position}
    rows = cursor.first_rows(
        (_TAKE_USER if Scope.USER in written else _SEE_USER, key[:3]),
        (_TAKE_APP if Scope.APP in written else _SEE_APP, key[:2]),
    )
    for scope, row in zip((Scope.USER, Scope.APP), rows, strict=True):
        if row is not None:
            ids[scope], positions[scope] = row
    return Taken(ids, positions)


UPSERT_KEY = {
    scope: f"INSERT INTO {table._meta.db_table} (owner_id, key, key_id, value, private, note, position)"  # noqa: S608 - our own tables
    " VALUES (%s, %s, %s, %s, %s, %s, %s)"
    " ON CONFLICT (owner_id, key_id) DO UPDATE SET value = excluded.value, private = excluded.private,"
    " note = excluded.note, position = excluded.position"
    for scope, table in STATE_ROWS.items()
}
"""Writes (owner, key, key_id, value, private, note, position) to the state of a scope."""

_REMOVE_KEY = {
    scope: f"DELETE FROM {table._meta.db_table} WHERE owner_id = %s AND key_id = %s"  # noqa: S608 - our own tables
    for scope, table in STATE_ROWS.items()
}
INSERT_CHANGE = (
    "INSERT INTO sessions_app_statechange (scope, owner_id, key, key_id, position, value, private, note, removed,"
    " cause, timestamp, session_id, from_user, from_session, seq, event_id, invocation_id, author, writer,"
    " writer_name, call_id, inferred)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
"""Writes a row of the ledger: its columns in this order."""


def write_keys(cursor: Statements, owners: Taken, writes: Iterable[KeyWrite], provenance: Provenance) -> None:
    """Write each key to its scope's state and to the ledger."""
    changes = []
    for write in writes:
        owner, position = owners.ids[write.scope], owners.positions[write.scope]
        key_id, value = state.key_id(write.key), write.value
        if write.removed:
            cursor.execute(_REMOVE_KEY[write.scope], [owner, key_id])
        else:
            row = [owner, write.key, key_id, value.public, value.private, value.note, position]
            cursor.execute(UPSERT_KEY[write.scope], row)
        changes.append(_change(write, owner, key_id, position, provenance))
    if changes:
        cursor.executemany(INSERT_CHANGE, changes)


def _change(
    write: KeyWrite, owner: int, key_id: str, position: int, provenance: Provenance
) -> tuple[str | int | float | None, ...]:
    """Return a key's row of the ledger, its columns in the order of `INSERT_CHANGE`."""
    value, writer = write.value, write.writer
    return (
        str(write.scope),
        owner,
        write.key,
        key_id,
        position,
        None if write.removed else value.public,
        None if write.removed else value.private,
        value.note,
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
        state.clean_text(writer.name),
        state.clean_text(writer.call_id),
        writer.inferred,
    )


def insert_temp(cursor: Statements, temp: Iterable[TempKey], provenance: Provenance) -> None:
    """Keep the `temp:` keys of an event beside it, as ghosts: they are part of no state and of no ledger."""
    rows = [
        (
            provenance.session_pk,
            provenance.seq,
            provenance.invocation_id,
            ghost.key,
            ghost.value.public,
            ghost.value.note,
            provenance.author,
            ghost.writer.kind,
            state.clean_text(ghost.writer.name),
            state.clean_text(ghost.writer.call_id),
        )
        for ghost in temp
    ]
    if rows:
        cursor.executemany(
            "INSERT INTO sessions_app_tempwrite (session_id, seq, invocation_id, key, value, note, author, writer,"
            " writer_name, call_id) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            rows,
        )
