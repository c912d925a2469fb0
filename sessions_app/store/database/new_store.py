"""Tables of a new SQLite store, created by one script per app.

The script leaves what the app's migrations leave, in a twentieth of their time. `make new-store` writes it from them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.signals import post_migrate

SCRIPT = "new_store.sql"
"""Name of the script in an app's package of migrations."""


def create_tables(app: str, migrations: ModuleType | None) -> None:
    """Create the tables of an app that has a script, if the store is an SQLite file without migrations of the app.

    Otherwise do nothing: also if something listens to Django's signal after migrations, which the script does not send.

    Raises:
        DatabaseError: the store cannot be written; then it has none of the tables.
    """
    script = find_script(migrations)
    if script is None or connection.vendor != "sqlite" or post_migrate.has_listeners():
        return
    recorder = MigrationRecorder(connection)
    if any(label == app for label, _ in recorder.applied_migrations()):
        return
    recorder.ensure_schema()
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in _split_statements(script.read_text(encoding="utf-8").splitlines(keepends=True)):
            cursor.execute(statement)


def find_script(migrations: ModuleType | None) -> Path | None:
    """Return the script in a package of migrations; None if there is none, as in projects that replace the package."""
    folders = [Path(folder) for folder in migrations.__path__] if migrations else []
    return next((folder / SCRIPT for folder in folders if (folder / SCRIPT).is_file()), None)


def _split_statements(lines: Iterable[str]) -> Iterator[str]:
    statement = ""
    for line in lines:
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
