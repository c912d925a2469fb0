"""Translate errors of the database and the disk into errors that name the store and say what to do."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, connection

from sessions_app.store.errors import (
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
"""PostgreSQL's SQLSTATE -> error class."""

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
"""Prefix of SQLite's error name -> error class."""

_FAILS_WHEN_FULL = ("SQLITE_IOERR", "SQLITE_CANTOPEN")
"""Errors that SQLite also reports when the disk has no space for its journal files."""

MIN_FREE_BYTES = 64 * 1024
"""Bytes that SQLite needs for its journal files; a disk with less free space counts as full."""

_HINTS = {
    StoreBusy: "Nothing was written. Try again when the other process, for example an import, has finished.",
    StoreFull: "Nothing was written. Free space on its disk and try again. No restart is needed.",
    StoreReadOnly: "Nothing was written. Give this process write access, or set DATABASE_URL to another store.",
    StoreUnavailable: "Check that the database is running and reachable, then try again. DevUI reconnects by itself.",
}
_RESTORE = {
    "sqlite": "Stop DevUI, keep a copy of the file, and restore a backup. Or recover what is readable with"
    " `sqlite3 OLD .recover | sqlite3 NEW` and set DATABASE_URL to the new file.",
    "postgresql": "The server's log names what is damaged. Restore a backup. If only an index is damaged, REINDEX"
    " repairs it.",
}
"""Hints for a damaged store, by database."""

_RULES = {
    StoreBusy: "is locked by another process",
    StoreCorrupt: "is damaged",
    StoreFull: "has no space left",
    StoreReadOnly: "is read-only",
    StoreUnavailable: "cannot be reached",
}


def translate(error: BaseException) -> StoreFault | None:
    """Return the store error that a database error means; None if the store is not at fault, as with a bug."""
    if not isinstance(error, DatabaseError | InterfaceError):
        return None
    kind = _find_fault_type(error)
    return _make_fault(kind, error) if kind else None


@contextmanager
def translate_db_errors() -> Iterator[None]:
    """Raise database errors inside the block as store errors.

    Raises:
        StoreFault: see `translate`.
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
    """Raise disk errors inside the block, which writes files beside the store, as store errors.

    Raises:
        StoreFull: the disk is full or a quota is reached.
        StoreReadOnly: the folder cannot be written.
    """
    try:
        yield
    except OSError as error:
        kind = StoreFull if error.errno in _FULL else StoreReadOnly if error.errno in _READ_ONLY else None
        if kind is None:
            raise
        raise _make_fault(kind, error) from error


def store_name(database: Mapping[str, Any], vendor: str) -> str:
    """Return a store's name for messages: its file, or database and server; never a password."""
    if vendor == "sqlite":
        return str(database["NAME"])
    host, port = database.get("HOST") or "localhost", database.get("PORT") or "5432"
    return f"{database['NAME']} on {host}:{port}"


def current_store_name() -> str:
    """Return the name of the store of this process, without a password."""
    return store_name(connection.settings_dict, connection.vendor)


def _make_fault(kind: type[StoreFault], error: BaseException) -> StoreFault:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    return kind(
        f"The store {current_store_name()!r} {_RULES[kind]}: {reason}.",
        hint=_RESTORE[connection.vendor] if kind is StoreCorrupt else _HINTS[kind],
    )


def _disk_is_full() -> bool:
    """Tell whether the disk of an SQLite store is full."""
    try:
        return shutil.disk_usage(Path(str(connection.settings_dict["NAME"])).parent).free < MIN_FREE_BYTES
    except OSError:
        return False


def _find_fault_type(error: BaseException) -> type[StoreFault] | None:
    cause = error.__cause__
    if state := getattr(cause, "sqlstate", None):
        return _FAULT_BY_SQLSTATE.get(state, StoreUnavailable if state.startswith("08") else None)
    if code := getattr(cause, "sqlite_errorname", None):
        if code.startswith(_FAILS_WHEN_FULL) and _disk_is_full():
            return StoreFull
        return next((kind for start, kind in _FAULT_BY_SQLITE_ERROR.items() if code.startswith(start)), None)
    is_lost = isinstance(error, InterfaceError) or (
        isinstance(error, OperationalError) and connection.vendor == "postgresql"
    )
    return StoreUnavailable if is_lost else None
