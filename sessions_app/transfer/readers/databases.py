"""Read-only connections to databases of other programs, which do not block their writers.

An SQLite file is copied first, by SQLite itself, into a private file: a long read of a live store would make its
writer fail with "database is locked". Servers give a snapshot transaction that is read-only.
"""

from __future__ import annotations

import re
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

from sessions_app.store.errors import BadInput
from sessions_app.store.redaction import without_password
from sessions_app.store.text_input import read_file

Row = dict[str, Any]

SQLITE_MAGIC = b"SQLite format 3\x00"
HEAD_BYTES = 4096
MAX_VALUE_BYTES = 128 * 1024 * 1024
"""Longest value that an SQLite file may give: generated columns compute values of any length."""

PAGE = 500
CONNECT_S = 15
LOCK_S = 30


class Database(ABC):
    """Read-only database. SQL uses `%s` as placeholder.

    Attributes:
        fingerprint: text that changes with the database; empty if that would be expensive.
    """

    append_order: ClassVar[str] = "id"
    """Column that orders rows of equal time."""
    columns_sql: ClassVar[str]
    """Query for the names of a table's columns, on a server in the schemas that are searched by default."""

    fingerprint = ""
    _connection: Any

    def columns(self, table: str) -> set[str]:
        """Return the names of a table's columns; empty if the table does not exist. Views are ignored on SQLite."""
        return {row["name"] for row in self.rows(self.columns_sql, [table])}

    @abstractmethod
    def rows(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """Yield the rows of a query lazily. One query at a time."""

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class SqliteDatabase(Database):
    """A private copy of an SQLite file."""

    append_order = "rowid"
    columns_sql = (
        "SELECT c.name FROM sqlite_master t JOIN pragma_table_info(t.name) c"
        " WHERE t.type = 'table' AND t.name = %s"
    )

    def __init__(self, path: Path) -> None:
        """Copy the file.

        Raises:
            BadInput: the file is no SQLite database, is damaged, or cannot be read.
        """
        self.fingerprint = file_fingerprint(path)
        self._folder = tempfile.TemporaryDirectory(prefix="devui-import-")
        copy = Path(self._folder.name) / "copy.sqlite3"
        try:
            _copy_sqlite(path, copy)
            self._connection = sqlite3.connect(f"{copy.as_uri()}?mode=ro", uri=True, check_same_thread=False)
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            self._connection.execute("PRAGMA query_only = ON")
            self._connection.execute("PRAGMA trusted_schema = OFF")
            self._connection.text_factory = lambda text: text.decode("utf-8", "replace")
            self._connection.row_factory = sqlite3.Row
        except (sqlite3.Error, OSError) as error:
            self._folder.cleanup()
            raise BadInput(
                f"{str(path)!r} cannot be read as an SQLite database: {error}.",
                hint="Check that the file is whole and that you may read it.",
            ) from error

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """Yield the rows of a query."""
        with closing(self._connection.execute(sql.replace("%s", "?"), values)) as cursor:
            yield from map(dict, cursor)

    def close(self) -> None:
        """Remove the copy."""
        self._connection.close()
        self._folder.cleanup()


def read_head(path: Path) -> bytes:
    """Return the first bytes of a file, which are enough to detect its format."""
    return read_file(path, HEAD_BYTES)


def file_fingerprint(path: Path) -> str:
    """Return a text that changes with a file or with its write-ahead log."""
    stamps = []
    for file_path in (path, path.with_name(path.name + "-wal")):
        if file_path.exists():
            status = file_path.stat()
            stamps.append(f"{status.st_mtime_ns}-{status.st_size}")
    return " ".join(stamps)


def _copy_sqlite(path: Path, copy: Path) -> None:
    read_only = f"{path.absolute().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(read_only, uri=True, timeout=LOCK_S)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target, pages=-1)


class PostgresDatabase(Database):
    """A PostgreSQL database in one read-only snapshot."""

    columns_sql = (
        "SELECT column_name AS name FROM information_schema.columns"
        " WHERE table_name = %s AND table_schema = ANY (current_schemas(false))"
    )

    def __init__(self, url: str) -> None:
        """Connect.

        Raises:
            BadInput: psycopg is missing, or the server cannot be reached.
        """
        psycopg = _import_driver("psycopg", "postgres")
        try:
            self._connection = psycopg.connect(
                "postgresql" + url[url.index(":") :],
                connect_timeout=CONNECT_S,
                row_factory=psycopg.rows.dict_row,
            )
            self._connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            self._connection.read_only = True
        except psycopg.Error as error:
            raise _unreachable_database(url, error) from error
        self._named_cursors = 0

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """Yield the rows of a query through a server-side cursor."""
        self._named_cursors += 1
        with self._connection.cursor(name=f"devui_{self._named_cursors}") as cursor:
            cursor.itersize = PAGE
            cursor.execute(sql, values)
            yield from cursor


class MySqlDatabase(Database):
    """A MySQL or MariaDB database in one read-only snapshot."""

    columns_sql = (
        "SELECT column_name AS name FROM information_schema.columns"
        " WHERE table_name = %s AND table_schema = database()"
    )

    def __init__(self, url: str) -> None:
        """Connect.

        Raises:
            BadInput: PyMySQL is missing, or the server cannot be reached.
        """
        pymysql = _import_driver("pymysql", "mysql")
        parts = urlsplit(url)
        try:
            self._connection = pymysql.connect(
                host=parts.hostname or "127.0.0.1",
                port=parts.port or 3306,
                user=unquote(parts.username or ""),
                password=unquote(parts.password or ""),
                database=unquote(parts.path.removeprefix("/")) or None,
                charset=dict(parse_qsl(parts.query)).get("charset", "utf8mb4"),
                connect_timeout=CONNECT_S,
                cursorclass=pymysql.cursors.SSDictCursor,
            )
            with self._connection.cursor() as cursor:
                cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        except (pymysql.Error, ValueError) as error:
            raise _unreachable_database(url, error) from error

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """Yield the rows of a query as the server sends them."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql, values)
            yield from cursor


def open_url(url: str) -> Database:
    """Connect to a database server by URL. The driver in SQLAlchemy's URLs (`postgresql+asyncpg://`) is ignored.

    Raises:
        BadInput: the scheme is not supported, or the server cannot be reached.
    """
    scheme = urlsplit(url).scheme.partition("+")[0]
    if scheme in {"postgresql", "postgres"}:
        return PostgresDatabase(url)
    if scheme in {"mysql", "mariadb"}:
        return MySqlDatabase(url)
    raise BadInput(
        f"{without_password(url)!r} names no store that can be read.",
        hint="Name a file, a folder, sqlite:///file, postgresql://… or mysql://….",
    )


def _import_driver(module: str, extra: str) -> Any:
    try:
        return __import__(module)
    except ImportError as error:
        raise BadInput(
            f"Reading this store needs the package {module}, which is not installed.",
            hint=f"Install it with: pip install 'devui[{extra}]'",
        ) from error


def _error_reason(url: str, error: Exception) -> str:
    """Return the first line of an error's message; only its type if it quotes a part of the password."""
    message = str(error).splitlines()[0] if str(error) else repr(error)
    password = url.partition("://")[2].rpartition("@")[0].partition(":")[2]
    pieces = [piece for piece in re.split(r"[/#?\[\]@:]", password) if piece]
    return type(error).__name__ if any(piece in message for piece in pieces) else message


def _unreachable_database(url: str, error: Exception) -> BadInput:
    return BadInput(
        f"{without_password(url)} cannot be read: {_error_reason(url, error)}.",
        hint="Check the address, the account and that the database exists.",
    )
