"""The store's schema: created and migrated when a program starts, refused when it is newer than the code."""

from __future__ import annotations

import fcntl
import logging
import os
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.core.management import call_command
from django.db import Error, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from sessions_app.errors import SchemaTooNew, StoreUnavailable
from sessions_app.store import db_errors

APPS = ("sessions_app", "evals_app")

_LOCK_NAME = "devui: schema"
"""What programs that share a PostgreSQL database lock in it to migrate."""

logger = logging.getLogger(__name__)


def ensure_schema() -> None:
    """Create or migrate the tables of the store, if they are not up to date.

    Of programs that begin with it at once one does it, and the others wait for that one. Tables of a project that has
    DevUI among its apps are left to that project.

    Raises:
        SchemaTooNew: the store holds migrations this DevUI does not know.
        StoreFault: the store cannot be reached, read or written, is full or damaged.
    """
    try:
        if _is_missing() or _is_behind():
            with _lock_store():
                if _is_behind():  # another program may have done it meanwhile, a newer DevUI too
                    for app in APPS:
                        call_command("migrate", app, interactive=False, verbosity=0)
    except (Error, OSError) as error:
        if (fault := db_errors.translate(error)) and not isinstance(fault, StoreUnavailable):
            raise fault from error
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise StoreUnavailable(
            f"The store {_store_name()!r} cannot be used: {reason}.",
            hint="Name one that can be reached and written by DATABASE_URL.",
        ) from error


def _is_missing() -> bool:
    """Tell whether a file of SQLite is not there yet.

    Who connects makes it, in several steps, and SQLite lets nobody wait for the one that sets its mode: "database is
    locked".
    """
    file = _sqlite_file()
    return file is not None and not (file.is_file() and file.stat().st_size)


def _is_behind() -> bool:
    """Tell whether the store lacks migrations.

    Raises:
        SchemaTooNew: it has migrations that are not known here.
    """
    known = _names_of_migrations()
    applied = {name for name in MigrationRecorder(connection).applied_migrations() if name[0] in APPS}
    if unknown := sorted(applied - known):
        raise SchemaTooNew(
            f"The store was written by a newer DevUI: it holds the migration {'.'.join(unknown[-1])}.",
            hint="Update DevUI, or name another store by DATABASE_URL.",
        )
    return applied != known


def _names_of_migrations() -> set[tuple[str, str]]:
    """Return app and name of every migration without importing any: every program asks at its start."""
    names = set()
    for app in APPS:
        module, _ = MigrationLoader.migrations_module(app)
        if module is not None:  # a project may have its tables made without migrations
            names |= {(app, found.name) for found in pkgutil.iter_modules(import_module(module).__path__)}
    return names


@contextmanager
def _lock_store() -> Iterator[None]:
    """Let one program at a time into the block. The lock is gone with the process that holds it."""
    if connection.vendor == "postgresql":
        with _lock_database():
            yield
    elif file := _sqlite_file():
        with _lock_folder(file.parent):
            yield
    else:
        yield


@contextmanager
def _lock_database() -> Iterator[None]:
    """Hold a lock of the connection's own: migrations are transactions each, and one of a transaction would end."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [_LOCK_NAME])
        if not cursor.fetchone()[0]:
            _log_wait(f"the store {_store_name()!r}")
            cursor.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [_LOCK_NAME])
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [_LOCK_NAME])


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder of an SQLite file: whoever closes the file itself would take SQLite's own locks on it away.

    Programs with other stores in this folder wait for each other, too.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _log_wait(f"a store in {str(folder)!r}")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sqlite_file() -> Path | None:
    """Return the file of an SQLite store as Django's settings name it, or None when there is none."""
    name = str(connection.settings_dict["NAME"])
    if connection.vendor != "sqlite" or name == ":memory:" or "mode=memory" in name:
        return None
    return Path(unquote(urlsplit(name).path) if name.startswith("file:") else name).absolute()


def _log_wait(store: str) -> None:
    logger.info("Waiting for another program that brings %s up to date.", store)


def _store_name() -> str:
    return db_errors.store_name(connection.settings_dict, connection.vendor)
