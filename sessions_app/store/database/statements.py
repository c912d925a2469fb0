"""Plain SQL statements of appends and of records of runs, executed by the database driver's cursor.

Django's cursor rewrites the placeholders of every statement and wraps every call, which cost an append of a dozen
statements more than the statements themselves. On PostgreSQL statements go through a pipeline. They are not logged
and not seen by `connection.execute_wrappers`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol

from django.db import connection
from django.db.models import BooleanField, FloatField, ForeignKey, IntegerField, Model

from sessions_app.store.database import store_guard

if TYPE_CHECKING:
    from psycopg import Connection

FIND_SESSION = (
    "SELECT id FROM sessions_app_agentsession"
    " WHERE realm = %s AND app_name = %s AND user_id = %s AND session_id = %s"
)
"""Statement that returns the primary key of the session of a `SessionKey`."""

PREPARE_AT_FIRST_USE = 0
"""psycopg's `prepare_threshold` for preparing statements at their first use."""


class Statements(Protocol):
    """The cursor interface that writes use. Placeholders are `%s`."""

    def execute(self, sql: str, values: Sequence[Any]) -> object:
        """Execute a statement."""

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> object:
        """Execute a statement for each row of values."""

    def fetchone(self) -> Any:
        """Return the next row of the last statement, or None."""

    def fetchall(self) -> list[Any]:
        """Return the remaining rows of the last statement."""

    def first_rows(self, *statements: tuple[str, Sequence[Any]]) -> list[Any]:
        """Execute statements in order and return the first row of each, or None. A pipeline takes one round trip."""


@contextmanager
def open_statements() -> Iterator[Statements]:
    """Open a statement cursor on the current connection, in a transaction that the caller has begun.

    On PostgreSQL results are awaited only when one is read or the block ends. A failed statement raises its error
    there, and the statements after it are not executed.

    Raises:
        django.db.DatabaseError: a statement failed.
    """
    if connection.vendor == "postgresql":
        with open_postgres_statements() as cursor:
            yield cursor
        return
    raw: sqlite3.Connection = connection.connection
    with connection.wrap_database_errors, closing(sqlite3.Cursor(raw)) as driver:
        yield _SqliteStatements(driver)


@contextmanager
def open_postgres_statements() -> Iterator[PostgresStatements]:
    """Open a statement cursor on PostgreSQL. See `open_statements`."""
    store_guard.require_same_schema()  # its statements are not seen by `connection.execute_wrappers`
    server: Connection[Any] = connection.connection
    with connection.wrap_database_errors, server.pipeline() if _can_pipeline() else nullcontext():
        yield PostgresStatements(server)


def dedicate_connection_to_appends() -> None:
    """Configure this thread's PostgreSQL connection for the statements of appends only.

    Statements are planned once, so sequential scans are disabled: a plan made for small tables must not stay. Lock
    waits end after a second: an append that must wait longer continues on another connection.
    """
    connection.ensure_connection()
    if connection.connection.prepare_threshold is None:
        with connection.cursor() as cursor:
            cursor.execute("SET enable_seqscan = off; SET lock_timeout = '1s'")
        connection.connection.prepare_threshold = PREPARE_AT_FIRST_USE


def insert_sql(model: type[Model]) -> str:
    """Return an INSERT statement for one row: all columns but the primary key, in the order of the fields."""
    return f"{_insert_into(model)} VALUES ({', '.join(['%s'] * len(_column_types(model)))})"


def bulk_insert_sql(model: type[Model]) -> str:
    """Return PostgreSQL's `insert_sql` for many rows. Its parameters: a list per column (`transpose`)."""
    return f"{_insert_into(model)} SELECT * FROM {unnest_sql(_column_types(model).values())} AS n"  # noqa: S608 - our own tables


def _insert_into(model: type[Model]) -> str:
    return f"INSERT INTO {model._meta.db_table} ({', '.join(_column_types(model))})"


def _column_types(model: type[Model]) -> dict[str, str]:
    """Return PostgreSQL's type of each column but the primary key."""
    return {
        str(field.column): next((name for kind, name in _TYPES.items() if isinstance(field, kind)), "text")
        for field in model._meta.concrete_fields
        if not field.primary_key
    }


_TYPES = {ForeignKey: "bigint", IntegerField: "bigint", FloatField: "float8", BooleanField: "boolean"}
"""PostgreSQL's type of each class of fields; all others are text."""


def unnest_sql(types: Iterable[str]) -> str:
    """Return PostgreSQL's expression for rows. Its parameters: a list per column (`transpose`)."""
    return f"unnest({', '.join(f'%s::{kind}[]' for kind in types)})"


def transpose(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """Return rows as a list per column. There must be at least one row."""
    return [list(column) for column in zip(*rows, strict=True)]


class _SqliteStatements:
    def __init__(self, driver: sqlite3.Cursor) -> None:
        self._driver = driver
        self.fetchone = driver.fetchone
        self.fetchall = driver.fetchall

    def execute(self, sql: str, values: Sequence[Any]) -> object:
        return self._driver.execute(_question_marks(sql), values)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> object:
        return self._driver.executemany(_question_marks(sql), rows)

    def first_rows(self, *statements: tuple[str, Sequence[Any]]) -> list[Any]:
        return [self._driver.execute(_question_marks(sql), values).fetchone() for sql, values in statements]


class PostgresStatements:
    """`Statements` on PostgreSQL."""

    def __init__(self, server: Connection[Any]) -> None:
        """Open a cursor that sends parameters separately, so that statements can be prepared."""
        from psycopg import Cursor

        self._new: Callable[[], Cursor[Any]] = partial(Cursor, server)
        self._cursor = self._new()
        self.execute = self._cursor.execute
        self.fetchone = self._cursor.fetchone
        self.fetchall = self._cursor.fetchall

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> object:
        """Execute a statement for each row of values."""
        for row in rows:
            self.execute(sql, row)
        return None

    def first_rows(self, *statements: tuple[str, Sequence[Any]]) -> list[Any]:
        """Execute statements in order and return the first row of each, or None."""
        return [rows[0] if rows else None for rows in self.all_rows(*statements)]

    def all_rows(self, *statements: tuple[str, Sequence[Any]]) -> list[list[Any]]:
        """Execute statements in order and return the rows of each. A pipeline takes one round trip."""
        cursors = [self._new().execute(sql, values) for sql, values in statements]
        return [cursor.fetchall() for cursor in cursors]


@cache
def _question_marks(sql: str) -> str:
    """Return a statement with SQLite's placeholders. Statements are constants without any other `%`."""
    return sql.replace("%s", "?")


@cache
def _can_pipeline() -> bool:
    """Tell whether the client library is new enough (libpq 14)."""
    from psycopg import Pipeline

    return Pipeline.is_supported()
