"""Plain statements for the hot path, in one transaction: each database's own shortest way to carry them out.

On SQLite that is the driver's cursor: Django's rewrites the placeholders of every statement and wraps every call,
which cost an append of a dozen statements more than they did themselves. On PostgreSQL it is a pipeline. Statements
are not logged and not seen by `connection.execute_wrappers`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from typing import Any, Protocol

from django.db import connection
from django.db.backends.utils import CursorWrapper


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
def opened() -> Iterator[Statements]:
    """Open statements on the current connection, in a transaction that the caller has begun.

    On PostgreSQL they are sent without waiting for answers until one is read, or the block ends; one that fails raises
    there, and those sent after it are not carried out.

    Raises:
        django.db.DatabaseError: a statement failed.
    """
    if connection.vendor == "sqlite":
        raw: sqlite3.Connection = connection.connection
        with connection.wrap_database_errors, closing(sqlite3.Cursor(raw)) as driver:
            yield _OnSqlite(driver)
    elif connection.vendor == "postgresql" and _can_pipeline():
        with connection.wrap_database_errors, connection.connection.pipeline(), connection.cursor() as cursor:
            yield _OnServer(cursor)
    else:
        with connection.cursor() as cursor:
            yield _OnServer(cursor)


class _OnSqlite:
    def __init__(self, driver: sqlite3.Cursor) -> None:
        self._driver = driver
        self.fetchone = driver.fetchone

    def execute(self, sql: str, values: Sequence[Any]) -> object:
        return self._driver.execute(_question_marks(sql), values)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> object:
        return self._driver.executemany(_question_marks(sql), rows)

    def first_rows(self, *statements: tuple[str, Sequence[Any]]) -> list[Any]:
        return [self._driver.execute(_question_marks(sql), values).fetchone() for sql, values in statements]


class _OnServer:
    def __init__(self, cursor: CursorWrapper) -> None:
        self._cursor = cursor
        self.execute = cursor.execute
        self.executemany = cursor.executemany
        self.fetchone = cursor.fetchone

    def first_rows(self, *statements: tuple[str, Sequence[Any]]) -> list[Any]:
        with ExitStack() as open_cursors:
            cursors = [open_cursors.enter_context(connection.cursor()) for _ in statements]
            for asking, (sql, values) in zip(cursors, statements, strict=True):
                asking.execute(sql, values)
            return [asking.fetchone() for asking in cursors]


@cache
def _question_marks(sql: str) -> str:
    """Return a statement with SQLite's own placeholders. They are constants of the code, and name no other `%`."""
    return sql.replace("%s", "?")


@cache
def _can_pipeline() -> bool:
    """Tell whether the client library is new enough (libpq 14)."""
    from psycopg import Pipeline

    return Pipeline.is_supported()
