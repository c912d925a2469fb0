"""Creates a store of an earlier version with rows in every table, migrates it, and prints its rows.

python -m tests.sessions.old_store DATABASE_URL APP.MIGRATION … [SESSIONS_SQUASH]

The migrations are the last ones that the version had; of an app that is not named, all. It created the store with the
squash, which later versions lack. The environment has the apps: those of users with DEVUI_USERS=1.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import devui
from tests.sessions.migrated_schema import migrate_one_by_one

Rows = dict[str, list[dict[str, str]]]
"""Table -> its rows, each as column -> what the value looks like."""

VALUES = {
    "FloatField": lambda row: 1_700_000_000.123456 + row,
    "BigIntegerField": lambda row: 2**53 + row,
    "IntegerField": lambda row: 2**30 + row,
    "SmallIntegerField": lambda row: 2**14 + row,
    "BooleanField": lambda row: True,
    "BinaryField": lambda row: bytes(range(256)),
}
"""Kind of a column -> a value that no default would be."""


RECOUNTED = frozenset({"sessions_app_agentsession.error_count"})
"""Columns that a migration derives anew from the rows."""


RENAMED = {"accounts_auditentry.verb": "action"}
"""Columns that have another name today."""

NOT_OURS = frozenset({"procrastinate"})
"""Apps whose rows their library writes and migrates."""


def main(url: str, *targets: str) -> dict[str, Any]:
    """Return how many tables were filled, which values were lost or not set, and how many rows today's models read."""
    devui.setup(url, migrate=False)
    from django.apps import apps
    from django.db import connection
    from django.db.migrations.recorder import MigrationRecorder

    from sessions_app.store.schema import APPS, ensure_schema

    named = dict(target.split(".") for target in targets if "." in target)
    earlier = migrate_one_by_one(*named.items())
    for squash in (target for target in targets if "." not in target):
        MigrationRecorder(connection).record_applied("sessions_app", squash)
    ours = [app for app in APPS if app not in NOT_OURS]
    models = [model for app in ours for model in earlier.apps.get_app_config(app).get_models()]
    tables = fill(models)
    before = rows_of(tables)
    ensure_schema()
    today = [model for app in ours for model in apps.get_app_config(app).get_models()]
    after = rows_of(tables)
    return {
        "tables": len(models),
        "lost": lost_rows(before, after),
        "without default": columns_without_default(after),
        "protected": protected_statements(),
        "readable": sum(len(list(model._default_manager.all())) for model in today),
    }


def fill(models: list[Any]) -> list[str]:
    """Write two rows into every table, those that others point to first; return the tables' names."""
    from django.db import connection

    made: dict[Any, list[Any]] = {}
    waiting = list(models)
    while waiting:
        model = next(model for model in waiting if needs(model) <= made.keys())
        waiting.remove(model)
        made[model] = []
        for row in range(2):
            made[model].append(model.objects.create(**values(model, row, made)))
    is_sqlite = connection.vendor == "sqlite"
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO memory_words (rowid, owner, words) VALUES (1, 'o', 'a b')"
            if is_sqlite
            else "UPDATE sessions_app_memoryentry SET words = '''a'':1'::tsvector"
        )
    return [model._meta.db_table for model in made] + (["memory_words"] if is_sqlite else [])


def needs(model: Any) -> set[Any]:
    """Return the other models that rows of a model point to."""
    return {field.related_model for field in model._meta.fields if field.is_relation} - {model}


def values(model: Any, row: int, made: dict[Any, list[Any]]) -> dict[str, Any]:
    """Return a value for every column but the key; of those that point to a row, the row of the same number."""
    from django.db.models import AutoField

    values_by_table: dict[str, Any] = {}
    for field in model._meta.fields:
        if field.is_relation:
            others = made[field.related_model]
            values_by_table[field.name] = others[row] if row < len(others) else None
        elif field.choices:
            values_by_table[field.name] = field.choices[-1][0]
        elif field.get_internal_type() in ("CharField", "TextField"):
            values_by_table[field.name] = f"{row} {field.name} 東京 \u202e \\ '"[: field.max_length]
        elif not isinstance(field, AutoField) and field.get_internal_type() in VALUES:
            values_by_table[field.name] = VALUES[field.get_internal_type()](row)
    values_by_table.pop("words", None)
    return values_by_table


def rows_of(tables: list[str]) -> Rows:
    """Return every row of the tables, without the columns that are derived anew."""
    from django.db import connection

    values: Rows = {}
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"SELECT * FROM {table} ORDER BY 1")
            names = [column[0] for column in cursor.description]
            rows = [dict(zip(names, map(show_value, row), strict=True)) for row in cursor.fetchall()]
            derived = {name for name in names if f"{table}.{name}" in RECOUNTED}
            values[table] = [{name: row[name] for name in names if name not in derived} for row in rows]
    return values


def show_value(value: Any) -> str:
    """Return what a value looks like."""
    return repr(bytes(value) if isinstance(value, memoryview) else value)


def lost_rows(before: Rows, after: Rows) -> list[str]:
    """Return the rows that are not there any more with every value that they had."""
    return [
        f"{table}: {row}"
        for table, rows in before.items()
        for row in rows
        if not any(with_todays_names(table, row).items() <= new.items() for new in after[table])
    ]


def with_todays_names(table: str, row: dict[str, str]) -> dict[str, str]:
    """Return a row with the names that its columns have today."""
    return {RENAMED.get(f"{table}.{name}", name): value for name, value in row.items()}


def protected_statements() -> list[str]:
    """Return the statements that the audit log refuses; none if the store has no users."""
    from django.conf import settings
    from django.db import DatabaseError, connection, transaction

    protected = []
    for statement in ("UPDATE accounts_auditentry SET action = ''", "DELETE FROM accounts_auditentry"):
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                if settings.DEVUI_USERS:
                    cursor.execute(statement)
        except DatabaseError as error:
            if "append-only" in str(error):
                protected.append(statement.split()[0])
    return protected


def columns_without_default(rows: Rows) -> list[str]:
    """Return the columns that hold their own name: SQLite read it from a table that did not have the column."""
    return sorted(
        {
            f"{table}.{name}"
            for table, of_table in rows.items()
            for row in of_table
            for name, value in row.items()
            if value == repr(name)
        }
    )


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
