"""Guard of a running process against a store that is not the one it started with.

An open connection keeps an SQLite file that was deleted, and a new one would create an empty file in its place: what is
written to either is lost. A store that another version migrates no longer has the tables of this code.
"""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from sessions_app.store.database import schema
from sessions_app.store.errors import StoreReplaced

CHECK_S = 1.0
"""Seconds between two checks: of the file by reads, of the migrations by writes. Writes check the file each time."""

_WRITES = ("BEGIN", "INSERT", "UPDATE", "DELETE")
"""First words of the statements that begin a write."""

_file_ids: dict[str, tuple[int, int] | None] = {}
"""Name of the guarded SQLite store -> device and inode of its file; None if there was none."""

_next_file_check_at = 0.0
_next_schema_check_at = math.inf
"""Monotonic times of the next checks."""


def guard_store(*, checks_schema: bool = True) -> None:
    """Refuse all later work of this process on a store that was removed or replaced.

    Args:
        checks_schema: also refuse writes to a store that another version has migrated.
    """
    database = connection.settings_dict
    if (file := schema.sqlite_file()) is not None:
        _file_ids[str(database["NAME"])] = _file_id(file)
        with suppress(OSError):
            os.open(file, os.O_RDONLY)  # never closed: while it is open, no other file gets its inode
        database["OPTIONS"].setdefault("factory", _ExistingFileConnection)
    if checks_schema:
        global _next_schema_check_at
        _next_schema_check_at = time.monotonic() + CHECK_S
    connection_created.connect(_install_check, dispatch_uid="devui store guard")
    for opened in connections.all(initialized_only=True):
        if not opened.in_atomic_block:
            opened.close()  # it reconnects with the checks


def require_same_schema() -> None:
    """Check before a write, at most once in `CHECK_S`, that this code knows the migrations of the store.

    Raises:
        StoreFault: another version has migrated it.
    """
    global _next_schema_check_at
    if (now := time.monotonic()) >= _next_schema_check_at:
        schema.require_current_schema()
        _next_schema_check_at = now + CHECK_S


class _ExistingFileConnection(sqlite3.Connection):
    """A connection that does not create the file of a guarded store."""

    def __init__(self, database: str, *args: Any, **options: Any) -> None:
        if database in _file_ids:
            _require_same_file(database)
            database = f"{Path(database).as_uri()}?mode=rw"
        super().__init__(database, *args, **options)


def _install_check(sender: object, connection: BaseDatabaseWrapper, **signal: Any) -> None:
    if connection.alias == DEFAULT_DB_ALIAS and _check_statement not in connection.execute_wrappers:
        connection.execute_wrappers.insert(0, _check_statement)


def _check_statement(
    execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
) -> Any:
    """Check the store before a transaction, or a statement outside of one."""
    is_write = sql.startswith(_WRITES)
    if not connection.in_atomic_block and (is_write or time.monotonic() >= _next_file_check_at):
        _require_same_file(str(connection.settings_dict["NAME"]))
    if is_write:
        require_same_schema()
    return execute(sql, params, many, context)


def _require_same_file(name: str) -> None:
    global _next_file_check_at
    if name not in _file_ids:
        return
    _next_file_check_at = 0.0
    if (file_id := _file_id(Path(name))) is None or file_id != _file_ids[name]:
        happened = "was removed" if file_id is None else "was replaced by another file"
        raise StoreReplaced(
            f"The store {name!r} {happened} while DevUI was running. Nothing is read or written any more.",
            hint="Restart DevUI to use what is there now, or put the file back.",
        )
    _next_file_check_at = time.monotonic() + CHECK_S


def _file_id(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
