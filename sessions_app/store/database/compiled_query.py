"""Queries of hot paths, whose SQL is built once per process.

Django needs more processor time to build the SQL of a query with subqueries than to execute it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from sessions_app.store.database.combined_query import combine

Value = int | str


class CompiledQuery:
    """A query with parameters. Rows are tuples of the database driver, without the conversions of Django's fields."""

    def __init__(self, build: Callable[..., Sequence[QuerySet[Any, Any]]], *samples: Value) -> None:
        """Compile the query when it is first used.

        Args:
            build: returns `values_list` querysets for one value of each parameter; see `combined_query`.
            samples: a value for each parameter, of its type, that occurs nowhere else in the query.
        """
        self._build = build
        self._samples = samples
        self._compiled: tuple[str, list[Any]] | None = None

    def rows(self, *values: Value) -> list[tuple[Any, ...]]:
        """Return the rows for the values of the parameters, each after the number of its queryset. One query."""
        if self._compiled is None:
            self._compiled = combine(*self._build(*self._samples))
        sql, parameters = self._compiled
        by_sample = dict(zip(self._samples, values, strict=True))
        with connection.cursor() as cursor:
            cursor.execute(sql, [by_sample.get(parameter, parameter) for parameter in parameters])
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows
