"""A program that creates an SQLite store by its scripts or by its migrations, and prints all of it as JSON.

python -m tests.sessions.new_store_content DATABASE_URL scripts|migrations
"""

from __future__ import annotations

import json
import sys
from typing import Any

import devui

QUERIES = {
    "django_migrations": "SELECT app, name FROM django_migrations",  # the times differ
    "sqlite_sequence": "SELECT name FROM sqlite_sequence WHERE seq > 0",  # 0: migrations made the table again
}
"""Queries of the rows that are compared, of tables whose rows are not all the same."""


def main(url: str, way: str) -> None:
    """Create the store and print it."""
    devui.setup(url, migrate=False)
    from django.core.management import call_command
    from django.db import connection

    from sessions_app.store.database import schema

    def refuse_migration(command: str, app: str, **options: Any) -> None:
        assert app not in {"sessions_app", "evals_app"}, f"The script of {app} lacks something."
        call_command(command, app, **options)

    if way == "migrations":
        call_command("migrate", verbosity=0)
    else:
        schema.call_command = refuse_migration
        schema.ensure_schema()
    with connection.cursor() as cursor:
        cursor.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
        content = {f"{kind} {name}": [table, sql] for kind, name, table, sql in cursor.fetchall()}
        for table in [name.removeprefix("table ") for name in content if name.startswith("table ")]:
            cursor.execute(QUERIES.get(table, f"SELECT * FROM {table}"))
            content[f"rows {table}"] = sorted(repr(row) for row in cursor.fetchall())
    print(json.dumps(content))


if __name__ == "__main__":
    main(*sys.argv[1:])
