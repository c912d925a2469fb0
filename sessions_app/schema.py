"""The store's schema: created and migrated when a program starts, refused when it is newer than the code."""

from __future__ import annotations

from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from sessions_app.errors import SchemaTooNew

APPS = ("sessions_app", "evals_app")


def ensure_schema() -> None:
    """Create or migrate the tables of the store, if they are not up to date.

    Raises:
        SchemaTooNew: the store holds migrations this DevUI does not know.
    """
    executor = MigrationExecutor(connection)
    known = set(executor.loader.disk_migrations)
    applied = {name for name in executor.loader.applied_migrations if name[0] in APPS}
    if unknown := sorted(applied - known):
        raise SchemaTooNew(
            f"The store was written by a newer DevUI: it holds the migration {'.'.join(unknown[-1])}.",
            hint="Update DevUI, or name another store by DATABASE_URL.",
        )
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        call_command("migrate", interactive=False, verbosity=0)
