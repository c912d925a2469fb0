"""Several small reads in one statement, because each statement is a round trip to the database."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet

Rows = list[tuple[Any, ...]]


def combine(*reads: QuerySet[Any, tuple[Any, ...]]) -> tuple[str, list[Any]]:
    """Return a statement and its parameters for the rows of `values_list` querysets, each after its queryset's number.

    The statement is empty if no queryset can have rows.
    """
    statements: list[str] = []
    parameters: list[Any] = []
    for number, rows in enumerate(reads):
        try:
            sql, values = rows.query.sql_with_params()
        except EmptyResultSet:
            continue
        statements.append(f"SELECT {number}, part.* FROM ({sql}) AS part")  # noqa: S608 - SQL of querysets
        parameters += values
    return " UNION ALL ".join(statements), parameters


def read_together(*reads: QuerySet[Any, tuple[Any, ...]]) -> list[Rows]:
    """Return the rows of several `values_list` querysets, whose columns have the same types. One query.

    The rows of a queryset are in no order, and have the values of the database driver, without the conversions of
    Django's fields.
    """
    statement, parameters = combine(*reads)
    parts: list[Rows] = [[] for _ in reads]
    if statement:
        with connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            for number, *columns in cursor.fetchall():
                parts[number].append(tuple(columns))
    return parts
