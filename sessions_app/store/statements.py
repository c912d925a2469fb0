"""Plain statements for the hot path, in one transaction: each database's own shortest way to carry them out.

That is the driver's cursor: Django's rewrites the placeholders of every statement and wraps every call, which cost an
append of a dozen statements more than they did themselves. On PostgreSQL they go through a pipeline. Statements are
not logged and not seen by `connection.execute_wrappers`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol

from django.db import connection

if TYPE_CHECKING:
    from psycopg import Connection

PREPARE_AT_FIRST_USE = 0
"""psycopg's `prepare_threshold` of a connection on which statements are prepared at their first use."""


class Statements(Protocol):
    """What writes need of a cursor. Placeholders are `%s`."""

    def execute(self, sql: str, values: Sequence[Any]) -> object:
        """Carry out a statement."""

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> object:
        """Carry out a statement for each row of values."""

    def fetchone(self) -> Any:
        """Return the next row of the statement before, or None."""

    def first_rows(self, *statements: tuple[str, Sequence[Any]]) -> list[Any]:
        """Carry out statements in order and return the first row of each, or None; in a pipeline in one round trip."""


@contextmanager
def open_statements() -> Iterator[Statements]:
    """Open statements on the current connection, in a transaction that the caller has begun.

    On PostgreSQL they are sent without waiting for answers until one is read, or the block ends; one that fails raises
    there, and those sent after it are not carried out.

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
    """Open statements as `opened` does, where the store is known to be on PostgreSQL."""
    server: Connection[Any] = connection.connection
    with connection.wrap_database_errors, server.pipeline() if _can_pipeline() else nullcontext():
        yield PostgresStatements(server)


def dedicate_connection_to_appends() -> None:
    """Set up this thread's connection to PostgreSQL for the statements of appends alone.

    They are planned once, so a plan must not scan whole tables because these were small at that moment. None waits for
    a lock for more than a second: an append that must wait longer waits on another connection and holds up no other.
    """
    connection.ensure_connection()
    if connection.connection.prepare_threshold is None:
        with connection.cursor() as cursor:
            cursor.execute("SET enable_seqscan = off; SET lock_timeout = '1s'")
        connection.connection.prepare_threshold = PREPARE_AT_FIRST_USE


def insert_sql(table: str, columns: Mapping[str, str]) -> str:
    """Return the statement that inserts a row: the values of the columns, in their order."""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(['%s'] * len(columns))})"  # noqa: S608 - our own tables


def bulk_insert_sql(table: str, columns: Mapping[str, str]) -> str:
    """Return PostgreSQL's statement that inserts many rows: a list for each column, in the order of `columns`."""
    return f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM {unnest_sql(columns.values())} AS given"  # noqa: S608 - our own tables


def unnest_sql(types: Iterable[str]) -> str:
    """Return PostgreSQL's expression for rows given by a list for each column. Its parameters: `by_column`."""
    return f"unnest({', '.join(f'%s::{kind}[]' for kind in types)})"


def transpose(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """Return rows as a list for each column. There must be one row at least."""
    return [list(column) for column in zip(*rows, strict=True)]


class _SqliteStatements:
    def __init__(self, driver: sqlite3.Cursor) -> None:
        self._driver = driver
        self.fetchone = driver.fetchone

    def execute(self, sql: str, values: Sequence[Any]) -> object:
        return self._driver.execute(_question_marks(sql), values)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> object:
        return self._driver.executemany(_question_marks(sql), rows)

    def first_rows(self, *statements: tuple[str, Sequence[Any]]) -> list[Any]:
        return [self._driver.execute(_question_marks(sql), values).fetchone() for sql, values in statements]


class PostgresStatements:
    """Statements on PostgreSQL: see `Statements`."""

    def __init__(self, server: Connection[Any]) -> None:
        """Open a cursor that sends values beside their statement, so that it can be prepared."""
        from psycopg import Cursor

        self._new: Callable[[], Cursor[Any]] = partial(Cursor, server)
        self._cursor = self._new()
        self.execute = self._cursor.execute
        self.fetchone = self._cursor.fetchone

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> object:
        """Carry out a statement for each row of values."""
        for row in rows:
            self.execute(sql, row)
        return None

    def first_rows(self, *statements: tuple[str, Sequence[Any]]) -> list[Any]:
        """Carry out statements in order and return the first row of each, or None."""
        return [rows[0] if rows else None for rows in self.all_rows(*statements)]

    def all_rows(self, *statements: tuple[str, Sequence[Any]]) -> list[list[Any]]:
        """Carry out statements in order and return the rows of each; in a pipeline in one round trip."""
        sent = [self._new().execute(sql, values) for sql, values in statements]
        return [cursor.fetchall() for cursor in sent]


@cache
def _question_marks(sql: str) -> str:
    """Return a statement with SQLite's own placeholders. They are constants of the code, and name no other `%`."""
    return sql.replace("%s", "?")


@cache
def _can_pipeline() -> bool:
    """Tell whether the client library is new enough (libpq 14)."""
    from psycopg import Pipeline

    return Pipeline.is_supported()
