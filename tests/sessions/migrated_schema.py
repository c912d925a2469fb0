"""Creates a store and prints its schema: by DevUI's migrations, or one by one without squashed ones.

python -m tests.sessions.migrated_schema DATABASE_URL squashed|one-by-one|removed
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import devui

SQLITE = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"

POSTGRES = """
SELECT 'column', c.relname || '.' || a.attname, concat_ws(' ', c.relkind, format_type(a.atttypid, a.atttypmod),
    a.attnotnull, a.attidentity, a.attgenerated, l.collname, pg_get_expr(d.adbin, d.adrelid))
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
LEFT JOIN pg_collation l ON l.oid = a.attcollation
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind <> 'i' AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL SELECT 'constraint', conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'trigger', tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT 'function', proname, pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
"""
"""Columns are compared by name: they stand in the order in which they were added, which nothing depends on."""

COLUMN_OR_CONSTRAINT = re.compile(r', (?="\w+" \w|CONSTRAINT )')
"""Separator of the columns and constraints in SQLite's definition of a table."""


def main(url: str, way: str) -> list[list[Any]]:
    """Return kind, name and definition of everything in the schema that a way of migrating leaves."""
    devui.setup(url, migrate=way != "one-by-one")
    from django.core.management import call_command
    from django.db import connection

    if way == "one-by-one":
        migrate_one_by_one()
    if way == "removed":
        for app in ("evals_app", "sessions_app"):
            call_command("migrate", app, "zero", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute(SQLITE if connection.vendor == "sqlite" else POSTGRES)
        return sorted([kind, name, sort_columns(sql)] for kind, name, sql in cursor.fetchall())


def sort_columns(sql: str) -> str:
    """Return the definition of a table on SQLite with its columns and constraints sorted, other SQL unchanged."""
    table = re.fullmatch(r"(CREATE TABLE \S+ \()(.*)\)", sql)
    return table[1] + ", ".join(sorted(COLUMN_OR_CONSTRAINT.split(table[2]))) + ")" if table else sql


def migrate_one_by_one(*targets: tuple[str, str]) -> Any:
    """Apply all migrations but squashed ones, of some apps up to the given ones; return the state of the models there.

    A DevUI that knew no squashed migration left such stores.
    """
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    from sessions_app.store.schema import APPS

    executor = MigrationExecutor(connection)
    executor.loader.replace_migrations = False
    executor.loader.build_graph()
    executor.loader.replacements = {}
    graph = executor.loader.graph
    leaves = [leaf for app in APPS for leaf in graph.leaf_nodes(app) if not graph.nodes[leaf].replaces]
    wanted = [*targets, *(leaf for leaf in leaves if leaf[0] not in dict(targets))]
    executor.migrate(wanted)
    return executor.loader.project_state(wanted)


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
