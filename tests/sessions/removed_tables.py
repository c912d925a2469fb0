"""Creates a store, reverts all its migrations, and prints the names of the tables that are still there.

python -m tests.sessions.removed_tables DATABASE_URL
"""

from __future__ import annotations

import json
import sys

import devui


def main(url: str) -> list[str]:
    """Return the tables that are left, with those of indexes."""
    devui.setup(url)
    from django.core.management import call_command
    from django.db import connection

    from sessions_app.store.database import schema

    for app in reversed(schema.APPS):
        call_command("migrate", app, "zero", verbosity=0)
    return [name for name in connection.introspection.table_names() if not name.startswith("sqlite_")]


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
