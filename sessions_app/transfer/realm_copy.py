"""Copy of the realms of eval attempts from another store of DevUI into this one.

All rows are copied as they are, with credentials; only primary keys and the realm change. Search indexes are built
anew. Artifacts and memory of an attempt are never stored.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Model

from sessions_app.store import realms
from sessions_app.store.database.schema import own_migrations
from sessions_app.store.errors import BadInput, SchemaTooOld
from sessions_app.store.models import (
    STATE_ROWS,
    AgentSession,
    AppScope,
    Event,
    EventJudgement,
    LogRecord,
    ModelCall,
    ModelPiece,
    NestedRun,
    Scope,
    SessionTag,
    Span,
    StateChange,
    TempWrite,
    Trace,
    UntrackedKey,
    UserScope,
)
from sessions_app.transfer.readers.databases import SqliteDatabase

BATCH = 500
NOT_INDEXED = -1
"""`indexed_seq` of a copied session, which the index of this store does not know yet."""

OWNERS: dict[Scope, type[AgentSession | UserScope | AppScope]] = {
    Scope.SESSION: AgentSession,
    Scope.USER: UserScope,
    Scope.APP: AppScope,
}
"""The table of the owners of each scope's state."""

SESSION_TABLES = (
    *(Event, EventJudgement, SessionTag, TempWrite, UntrackedKey),
    *(Trace, ModelCall, ModelPiece, Span, LogRecord),
)
"""Tables with one session and without other keys."""

Row = TypeVar("Row", bound=Model)


def _without_users(migrations: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the migrations of the tables that every store has."""
    return {(app, name) for app, name in migrations if app in {"sessions_app", "evals_app"}}


class StoreFile:
    """Another store of DevUI in an SQLite file, which is only read."""

    def __init__(self, path: Path) -> None:
        """Open a private copy of the file.

        Raises:
            BadInput: the file cannot be read, is no store of DevUI, or one of another version.
        """
        if not os.path.isfile(path):  # False also for names that no file can have
            raise BadInput(f"There is no store {str(path)!r}.", hint="Name the SQLite file of a store.")
        self.path = path
        self._database = SqliteDatabase(path)
        if not (migrations := self._applied_migrations()):
            raise BadInput(
                f"{str(path)!r} is no store of DevUI.", hint="Name the SQLite file that DATABASE_URL named."
            )
        migrations = _without_users(migrations)  # programs that run agents make stores without users
        known_migrations = _without_users(own_migrations(MigrationRecorder(connection).applied_migrations()))
        if migrations - known_migrations:
            raise BadInput(f"{str(path)!r} was written by a newer version of DevUI.", hint="Update DevUI.")
        if migrations != known_migrations:
            raise BadInput(
                f"{str(path)!r} was written by another version of DevUI.",
                hint=f"Bring it up to date: DATABASE_URL=sqlite:///{path} devui migrate",
            )

    def _applied_migrations(self) -> set[tuple[str, str]]:
        if not self._database.columns("django_migrations"):
            return set()
        rows = self._database.rows("SELECT app, name FROM django_migrations")
        try:
            return own_migrations((row["app"], row["name"]) for row in rows)
        except SchemaTooOld as error:
            raise BadInput(
                f"{str(self.path)!r} was written by an older development version of DevUI.",
                hint="Run its evals again with this version.",
            ) from error

    def rows(self, table: type[Row], **values: Any) -> Iterator[tuple[Any, Row]]:
        """Yield (primary key there, unsaved row) of the rows with these values of columns, in their order."""
        condition = " AND ".join(f"{column} = %s" for column in values) or "1 = 1"
        sql = f"SELECT * FROM {table._meta.db_table} WHERE {condition} ORDER BY rowid"  # noqa: S608 - our own names
        fields = [
            (field.attname, field.column)
            for field in table._meta.concrete_fields
            if field.column and not (field.primary_key and field.get_internal_type() == "BigAutoField")
        ]
        for row in list(self._database.rows(sql, list(values.values()))):
            yield row["id"], table(**{name: row[column] for name, column in fields})

    def close(self) -> None:
        """Remove the private copy."""
        self._database.close()


def copy_realm(source: StoreFile, realm: str, new_realm: str) -> dict[int, int]:
    """Copy a realm with its sessions, state, traces and nested sessions, in the caller's transaction.

    Returns:
        The primary key of each session there and here.
    """
    sessions = _copy_sessions(source, realm, new_realm)
    for key in list(sessions):
        sessions |= _copy_nested_runs(source, key, sessions)
    return sessions


def _copy_nested_runs(source: StoreFile, key: int, sessions: dict[int, int]) -> dict[int, int]:
    """Copy the nested runs inside a session, which follow the runs around them, with their sessions."""
    nested: dict[int, int] = {}
    for _, run in source.rows(NestedRun, outer_id=key):
        [(_, child)] = source.rows(AgentSession, id=run.child_id)
        new_realm = realms.nested_key(child.key, sessions[key], child.session_id).realm
        nested |= _copy_sessions(source, child.realm, new_realm)
        run.child_id, run.outer_id = nested[run.child_id], sessions[key]
        run.caller_id = (sessions | nested)[run.caller_id]
        run.save(force_insert=True)
    return nested


def _copy_sessions(source: StoreFile, realm: str, new_realm: str) -> dict[int, int]:
    """Copy the sessions of a realm with their state and traces, and the state of its users and apps."""
    keys = {scope: _copy_owners(source, owner, realm, new_realm) for scope, owner in OWNERS.items()}
    sessions = keys[Scope.SESSION]
    for scope, owners in keys.items():
        for key, new_key in owners.items():
            _insert_copies(STATE_ROWS[scope], source, {"owner_id": key}, owner_id=new_key)
            _copy_ledger(source, scope, key, new_key, sessions)
    for key, new_key in sessions.items():
        for table in SESSION_TABLES:
            _insert_copies(table, source, {"session_id": key}, session_id=new_key)
    return sessions


def _copy_owners(
    source: StoreFile, table: type[AgentSession | UserScope | AppScope], realm: str, new_realm: str
) -> dict[int, int]:
    keys = {}
    for key, owner in source.rows(table, realm=realm):
        owner.realm = new_realm
        if isinstance(owner, AgentSession):
            owner.indexed_seq, owner.forked_from_id = NOT_INDEXED, None
            owner.problems_seq, owner.problem_count, owner.problems_beyond = NOT_INDEXED, 0, 0
        owner.save(force_insert=True)
        keys[key] = owner.pk
    return keys


def _copy_ledger(
    source: StoreFile, scope: Scope, key: int, new_key: int, sessions: Mapping[int, int]
) -> None:
    changes = [row for _, row in source.rows(StateChange, scope=scope, owner_id=key)]
    for change in changes:
        change.owner_id, change.session_id = new_key, sessions.get(change.session_id or 0)
    StateChange.objects.bulk_create(changes, BATCH)


def _insert_copies(table: type[Model], source: StoreFile, which: Mapping[str, Any], **changes: Any) -> None:
    rows = [row for _, row in source.rows(table, **which)]
    for row in rows:
        for name, value in changes.items():
            setattr(row, name, value)
    table._default_manager.bulk_create(rows, BATCH)
