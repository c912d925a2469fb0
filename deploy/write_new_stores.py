"""Write the scripts that create the tables of a new SQLite store, from the migrations of each app.

`python deploy/write_new_stores.py [FOLDER]`, or `make new-store`, after each new migration. Default: this checkout.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
APPS = ("sessions_app", "evals_app")
"""Apps with a script, in the order in which they are migrated."""

NOW = "strftime('%Y-%m-%d %H:%M:%f', 'now')"
"""SQL of the time at which a migration is applied, as Django writes it."""

HEAD = "-- Written by `make new-store` from this app's migrations. See `sessions_app/store/database/new_store.py`.\n"


def compose_scripts() -> Iterator[tuple[str, str]]:
    """Migrate a temporary store app by app. Yield the path and the content of each script."""
    from django.core.management import call_command
    from django.db import connection

    from sessions_app.store.database.new_store import SCRIPT

    store = sqlite3.connect(connection.settings_dict["NAME"])
    known = set[str]()
    for app in APPS:
        call_command("migrate", app, interactive=False, verbosity=0)
        statements = dict(_read_statements(store))
        new = [statement for name, statement in statements.items() if name not in known]
        known |= set(statements)
        content = "\n".join(f"{statement};\n" for statement in [*new, _record_migrations(store, app)])
        yield f"{app}/migrations/{SCRIPT}", f"{HEAD}\n{content}"
    store.close()


def _read_statements(store: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Yield name and SQL of tables and indexes in the order of their creation, without the tables within indexes."""
    rows = store.execute(
        "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
    ).fetchall()
    indexes = [name for name, sql in rows if sql.startswith("CREATE VIRTUAL TABLE")]
    for name, sql in rows:
        is_within = any(name.startswith(f"{index}_") for index in indexes)
        if not is_within and name not in {"django_migrations", "sqlite_sequence"}:
            yield name, sql


def _record_migrations(store: sqlite3.Connection, app: str) -> str:
    names = store.execute("SELECT name FROM django_migrations WHERE app = ? ORDER BY id", [app])
    rows = ",\n".join(f"('{app}', '{name}', {NOW})" for (name,) in names)
    return f"INSERT INTO django_migrations (app, name, applied) VALUES\n{rows}"


def main(target: Path) -> None:
    """Write the scripts to a folder."""
    sys.path.insert(0, str(ROOT))
    os.environ["DJANGO_SETTINGS_MODULE"] = "devui.agent_settings"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DATABASE_URL"] = f"sqlite:///{folder}/store.sqlite3"
        import django

        django.setup()
        for name, content in compose_scripts():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else ROOT)
