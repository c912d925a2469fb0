"""Triggers of the database that keep the rows of a table from being changed or deleted."""

from __future__ import annotations

from django.db.backends.base.base import BaseDatabaseWrapper

MESSAGE = "The audit log is append-only."
STATEMENTS = ("UPDATE", "DELETE")


def create_triggers(connection: BaseDatabaseWrapper, table: str) -> None:
    """Create triggers that refuse UPDATE and DELETE on a table."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for statement in STATEMENTS:
                cursor.execute(
                    f"CREATE TRIGGER {_trigger_name(table, statement)} BEFORE {statement} ON {table}"
                    f" BEGIN SELECT RAISE(ABORT, '{MESSAGE}'); END"
                )
            return
        cursor.execute(
            f"CREATE OR REPLACE FUNCTION {table}_refuse() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN RAISE EXCEPTION '{MESSAGE}'; END $$"
        )
        for statement in STATEMENTS:
            cursor.execute(
                f"CREATE TRIGGER {_trigger_name(table, statement)} BEFORE {statement} ON {table}"
                f" FOR EACH ROW EXECUTE FUNCTION {table}_refuse()"
            )


def drop_triggers(connection: BaseDatabaseWrapper, table: str) -> None:
    """Drop the triggers of `create_triggers`."""
    on_table = "" if connection.vendor == "sqlite" else f" ON {table}"
    with connection.cursor() as cursor:
        for statement in STATEMENTS:
            cursor.execute(f"DROP TRIGGER IF EXISTS {_trigger_name(table, statement)}{on_table}")


def _trigger_name(table: str, statement: str) -> str:
    return f"{table}_no_{statement.lower()}"
