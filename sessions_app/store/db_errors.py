"""What a database or a disk says when it cannot keep something, in words that name the store and the way out."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, connection

from sessions_app.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreFault,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)

_FAULT_BY_SQLSTATE = {
    "40001": StoreBusy,
    "40P01": StoreBusy,
    "55P03": StoreBusy,
    "53100": StoreFull,
    "25006": StoreReadOnly,
    "XX001": StoreCorrupt,
    "XX002": StoreCorrupt,
    "57P01": StoreUnavailable,
    "57P02": StoreUnavailable,
    "57P03": StoreUnavailable,
    "53300": StoreUnavailable,
    "58030": StoreUnavailable,
}
"""SQLSTATE of PostgreSQL -> what it means for who asked."""

_FAULT_BY_SQLITE_ERROR = {
    "SQLITE_BUSY": StoreBusy,
    "SQLITE_LOCKED": StoreBusy,
    "SQLITE_FULL": StoreFull,
    "SQLITE_READONLY": StoreReadOnly,
    "SQLITE_CANTOPEN": StoreUnavailable,
    "SQLITE_IOERR": StoreUnavailable,
    "SQLITE_CORRUPT": StoreCorrupt,
    "SQLITE_NOTADB": StoreCorrupt,
}
"""Start of SQLite's error name -> what it means for who asked."""

_FAILS_WHEN_FULL = ("SQLITE_IOERR", "SQLITE_CANTOPEN")
"""What SQLite also says when there is no room for the files that it needs beside the store to open it."""

MIN_FREE_BYTES = 64 * 1024
"""Bytes that SQLite needs for these files; a disk with less room is full."""

_HINTS = {
    StoreBusy: "Nothing was written. Do it again when the other process, an import for example, is done with it.",
    StoreFull: "Nothing was written. Make room on its disk, then do it again: nothing needs to be restarted.",
    StoreReadOnly: "Nothing was written. Let this process write there, or name another store by DATABASE_URL.",
    StoreUnavailable: "See that it is there and answers, then do it again: DevUI connects anew by itself.",
}
_RESTORE = {
    "sqlite": "Stop DevUI, keep a copy of the file, and restore a backup, or save what can still be read with"
    " `sqlite3 OLD .recover | sqlite3 NEW` and name the new file by DATABASE_URL.",
    "postgresql": "The server's log names what is damaged. Restore a backup; a damaged index alone is mended by"
    " REINDEX.",
}
"""The way out of a damaged store. DevUI cannot mend one, and connecting anew does not either."""

_RULES = {
    StoreBusy: "is being written by another process for long",
    StoreCorrupt: "is damaged",
    StoreFull: "has no room left",
    StoreReadOnly: "can be read but not written",
    StoreUnavailable: "cannot be reached",
}


def translate(error: BaseException) -> StoreFault | None:
    """Return what a database's error means, or None when the store is not at fault: a bug, or a broken rule."""
    if not isinstance(error, DatabaseError | InterfaceError):
        return None
    kind = _fault_type_of(error)
    return _make_fault(kind, error) if kind else None


@contextmanager
def translate_db_errors() -> Iterator[None]:
    """Raise what the database reports inside the block as what it means.

    Raises:
        StoreFault: see `explain`.
    """
    try:
        yield
    except (DatabaseError, InterfaceError) as error:
        fault = translate(error)
        if fault is None:
            raise
        raise fault from error


@contextmanager
def translate_file_errors() -> Iterator[None]:
    """Raise what the disk reports inside the block, which writes files beside the store, as what it means.

    Raises:
        StoreFull, StoreReadOnly: the disk is full, a limit is reached, or the folder cannot be written.
    """
    try:
        yield
    except OSError as error:
        kind = StoreFull if error.errno in _FULL else StoreReadOnly if error.errno in _READ_ONLY else None
        if kind is None:
            raise
        raise _make_fault(kind, error) from error


def store_name(database: Mapping[str, Any], vendor: str) -> str:
    """Return how a store is called in messages: its file, or database and server; never a password."""
    if vendor == "sqlite":
        return str(database["NAME"])
    host, port = database.get("HOST") or "localhost", database.get("PORT") or "5432"
    return f"{database['NAME']} on {host}:{port}"


def _make_fault(kind: type[StoreFault], error: BaseException) -> StoreFault:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    return kind(
        f"The store {store_name(connection.settings_dict, connection.vendor)!r} {_RULES[kind]}: {reason}.",
        hint=_RESTORE[connection.vendor] if kind is StoreCorrupt else _HINTS[kind],
    )


def _disk_is_full() -> bool:
    """Tell whether the disk of an SQLite store has no room left."""
    try:
        return shutil.disk_usage(Path(str(connection.settings_dict["NAME"])).parent).free < MIN_FREE_BYTES
    except OSError:
        return False


def _fault_type_of(error: BaseException) -> type[StoreFault] | None:
    cause = error.__cause__
    if state := getattr(cause, "sqlstate", None):
        return _FAULT_BY_SQLSTATE.get(state, StoreUnavailable if state.startswith("08") else None)
    if code := getattr(cause, "sqlite_errorname", None):
        if code.startswith(_FAILS_WHEN_FULL) and _disk_is_full():
            return StoreFull
        return next((kind for start, kind in _FAULT_BY_SQLITE_ERROR.items() if code.startswith(start)), None)
    lost = isinstance(error, InterfaceError) or (
        isinstance(error, OperationalError) and connection.vendor == "postgresql"
    )
    return StoreUnavailable if lost else None
