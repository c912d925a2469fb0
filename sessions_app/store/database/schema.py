"""Create and migrate the store's schema at startup; refuse a schema that is newer than the code."""

from __future__ import annotations

import fcntl
import logging
import os
import pkgutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.core.management import call_command
from django.db import Error, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from sessions_app.store.database import db_errors, new_store
from sessions_app.store.errors import SchemaTooNew, SchemaTooOld, StoreUnavailable

APPS = (
    *getattr(settings, "DEVUI_USER_APPS", ()),
    *("sessions_app", "evals_app"),
    *getattr(settings, "DEVUI_ENGINE_APPS", ()),
)
"""Labels of the apps with tables. Those of workers are absent from a server without them.

Those of users come first: migrated after the others they would take a second longer. Programs that run agents
lack them.
"""

_LOCK_NAME = "devui: schema"
"""Name of the advisory lock on PostgreSQL that is held while migrating."""

logger = logging.getLogger(__name__)


def ensure_schema() -> None:
    """Create or migrate the tables of the store if they are not up to date.

    If several programs start at once, one migrates and the others wait. Tables of other apps are not touched.

    Raises:
        SchemaTooNew: the store has migrations that this DevUI does not know.
        SchemaTooOld: the store was written before the first release, and lacks migrations of that time.
        StoreFault: the store cannot be reached, read or written, is full or damaged.
    """
    try:
        if _is_missing() or _may_be_behind():
            with _lock_store():
                if _is_behind():  # another program may have migrated meanwhile
                    _migrate_apps()
    except (Error, OSError) as error:
        if (fault := db_errors.translate(error)) and not isinstance(fault, StoreUnavailable):
            raise fault from error
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise StoreUnavailable(
            f"The store {db_errors.current_store_name()!r} cannot be used: {reason}.",
            hint="Set DATABASE_URL to a store that can be reached and written.",
        ) from error


def _migrate_apps() -> None:
    for app in APPS:
        new_store.create_tables(app, _migrations_package(app))
        if app in _find_apps_behind():
            call_command("migrate", app, interactive=False, verbosity=0)


def require_current_schema() -> None:
    """Check that the store answers and has the tables of this code.

    Raises:
        SchemaTooNew: the store has migrations that this DevUI does not know.
        SchemaTooOld: the store was written before the first release, and lacks migrations of that time.
        StoreUnavailable: the store lacks migrations.
        StoreFault: the store cannot be reached or read.
    """
    with db_errors.translate_db_errors():
        if _is_behind():
            raise StoreUnavailable(
                f"The store {db_errors.current_store_name()!r} lacks migrations of this DevUI.",
                hint="Start a server of this version, or run `python manage.py migrate`.",
            )


def _is_missing() -> bool:
    """Tell whether the SQLite file does not exist yet.

    Connecting creates it in several steps, during which a second program would fail with "database is locked".
    """
    file = sqlite_file()
    return file is not None and not (file.is_file() and file.stat().st_size)


def _may_be_behind() -> bool:
    """Tell whether the store lacks migrations, or another program is recording them one by one."""
    try:
        return _is_behind()
    except SchemaTooOld:
        return True


def _is_behind() -> bool:
    """Tell whether the store lacks migrations.

    Raises:
        SchemaTooNew: the store has unknown migrations.
        SchemaTooOld: the store was written before the first release, and lacks migrations of that time.
    """
    return bool(_find_apps_behind())


def _find_apps_behind() -> set[str]:
    """Return the labels of the apps of which the store lacks migrations.

    Raises:
        SchemaTooNew: the store has unknown migrations.
        SchemaTooOld: the store was written before the first release, and lacks migrations of that time.
    """
    all_migrations = _list_migrations()
    applied = own_migrations(MigrationRecorder(connection).applied_migrations())
    if unknown := sorted(applied - all_migrations):
        raise SchemaTooNew(
            f"The store was written by a newer DevUI: it has the unknown migration {'.'.join(unknown[-1])}.",
            hint="Update DevUI, or set DATABASE_URL to another store.",
        )
    return {app for app, _ in all_migrations - applied}


def own_migrations(names: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return (app, name) of DevUI's own migrations among the names that a store has.

    A store that has all migrations of the time before the first release has the tables of `0001_schema`, which replaces
    them: it counts as one that has this. Django also records them for a new store.

    Raises:
        SchemaTooOld: the store lacks some of these.
    """
    applied = {(app, name) for app, name in names if app in APPS and "_squashed_" not in name}
    for app in APPS:
        replaced = set(getattr(_migrations_package(app), "REPLACED", ()))
        if not (present := replaced & applied):
            continue
        if present != replaced:
            raise SchemaTooOld(
                f"The store was written by an older development version of DevUI (its last migration of {app} is"
                f" {max(present)[1]}), which this version cannot migrate.",
                hint="Export its sessions with the version that wrote it (`devui export_sessions`), set DATABASE_URL to"
                " a new store, and import them there (`devui import_sessions`).",
            )
        applied = applied - replaced | {(app, "0001_schema")}
    return applied


@cache
def _list_migrations() -> set[tuple[str, str]]:
    """Return (app, name) of every migration of this process's code, without importing it, which takes long."""
    names = set()
    for app in APPS:
        package = _migrations_package(app)
        if package is not None:
            names |= {(app, info.name) for info in pkgutil.iter_modules(package.__path__)}
    return names


@cache
def _migrations_package(app: str) -> ModuleType | None:
    """Return the package of an app's migrations; None if a project disables them."""
    module, _ = MigrationLoader.migrations_module(app)
    return None if module is None else import_module(module)


@contextmanager
def _lock_store() -> Iterator[None]:
    """Hold the migration lock while the block runs. The lock ends with the process."""
    if connection.vendor == "postgresql":
        with _lock_database():
            yield
    elif file := sqlite_file():
        with _lock_folder(file.parent):
            yield
    else:
        yield


@contextmanager
def _lock_database() -> Iterator[None]:
    """Hold a session-level advisory lock, because each migration is a transaction of its own."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [_LOCK_NAME])
        if not cursor.fetchone()[0]:
            _log_wait(f"the store {db_errors.current_store_name()!r}")
            cursor.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [_LOCK_NAME])
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [_LOCK_NAME])


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder of an SQLite file. Closing the file itself would release SQLite's own locks on it."""
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


def sqlite_file() -> Path | None:
    """Return the file of an SQLite store; None for other stores and in-memory databases."""
    name = str(connection.settings_dict["NAME"])
    if connection.vendor != "sqlite" or name == ":memory:" or "mode=memory" in name:
        return None
    return Path(unquote(urlsplit(name).path) if name.startswith("file:") else name).absolute()


def _log_wait(store: str) -> None:
    logger.info("Waiting for another program that migrates %s.", store)
