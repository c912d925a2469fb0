"""Distinct values of an indexed column by a skip scan: one index seek per value, however many rows have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import connection


def distinct_values(
    table: str, column: str, where: Mapping[str, Any], *, start: str = "", limit: int = 2**31
) -> list[str]:
    """Return the distinct texts in a column of the rows that have the values of `where`, sorted, from `start` on."""
    return [row[0] for row in distinct_rows(table, column, where, start=start, limit=limit)]


def distinct_rows(
    table: str,
    column: str,
    where: Mapping[str, Any],
    *,
    start: str = "",
    limit: int = 2**31,
    further_columns: str = "",
) -> list[tuple[Any, ...]]:
    """Return `distinct_values`, each with further columns: SQL that refers to the value as `names.name`."""
    fixed = " AND ".join(f"{name} = %({name})s" for name in where)
    sql = f"""
        WITH RECURSIVE names(name, number) AS (
            SELECT min({column}), 1 FROM {table} WHERE {fixed} AND {column} >= %(start)s
            UNION ALL
            SELECT (SELECT min({column}) FROM {table} WHERE {fixed} AND {column} > names.name), number + 1
            FROM names WHERE names.name IS NOT NULL AND number < %(most)s
        )
        SELECT name{further_columns} FROM names WHERE name IS NOT NULL
    """  # noqa: S608 - our own tables
    with connection.cursor() as cursor:
        cursor.execute(sql, {**where, "start": start, "most": limit})
        return list(cursor.fetchall())
