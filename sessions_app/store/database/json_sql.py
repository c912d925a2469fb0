"""Compare JSON values in text columns by type: SQL expressions, and sortable index marks. Pure.

The databases' JSON functions cannot be used: PostgreSQL's jsonb rejects NUL, lone surrogates and NaN. The first
character of a JSON text tells its type.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, FloatField, Func, Q, TextField
from django.db.models.sql.compiler import SQLCompiler

PREFIX_LENGTH = 64
"""Characters of a value that are compared, and that a mark contains."""

NUMBER, STRING, OTHER = "n", "s", "j"
"""Prefixes of marks of numbers, strings and all other values."""

ANY = ""
"""The mark that every key has once per owner, besides the marks of its values. Sorts before them."""

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""Replaces NUL in marks, which PostgreSQL's text columns cannot store."""

_SIGN_BIT = 1 << 63
_ALL_BITS = (1 << 64) - 1


def mark(text: str) -> str:
    """Return the mark of a JSON text. Marks of one type sort like their values.

    Different values have the same mark only if they differ after `PREFIX_LENGTH` characters, or as integers beyond
    2**53.
    """
    first = text[:1]
    if first == '"':
        return (
            STRING + (json.loads(text) if "\\" in text else text[1:-1]).replace("\0", UNKNOWN)[:PREFIX_LENGTH]
        )
    if first and first in "-0123456789":
        return number_mark(float(text))
    return OTHER + text[:PREFIX_LENGTH]


def number_mark(number: float) -> str:
    """Return the mark of a number."""
    return NUMBER + _sortable_hex(number)


def _sortable_hex(number: float) -> str:
    """Return hexadecimal digits that sort like the number."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", number + 0.0))
    return f"{(~bits & _ALL_BITS) if bits & _SIGN_BIT else bits | _SIGN_BIT:016x}"


class MarkField(models.TextField):  # type: ignore[type-arg]  # generic in the stubs alone
    """A text column that sorts by code points on both databases."""

    def db_parameters(self, connection: BaseDatabaseWrapper) -> dict[str, Any]:
        """Return the column's type and collation. SQLite sorts by code points by default."""
        collation = "C" if connection.vendor == "postgresql" else None
        return {**super().db_parameters(connection), "collation": collation}


class JsonNumber(Func):
    """The number in a JSON text: null for other values, infinite if it exceeds a double.

    Integers are exact, on SQLite up to 64 bits.
    """

    output_field = FloatField()

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Return the SQL for SQLite."""
        sql, params = compiler.compile(self.source_expressions[0])
        is_number = f"substr({sql}, 1, 1) IN ('-','0','1','2','3','4','5','6','7','8','9')"
        return f"(CASE WHEN {is_number} THEN CAST({sql} AS NUMERIC) END)", (*params, *params)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Return the SQL for PostgreSQL, whose cast raises an error on overflow."""
        sql, params = compiler.compile(self.source_expressions[0])
        cases = (
            f"WHEN {sql} ~ '^-?[0-9]{{1,255}}([.eE]|$)' THEN CAST({sql} AS numeric)"
            f" WHEN {sql} ~ '^[0-9]' THEN 'Infinity' WHEN {sql} ~ '^-[0-9]' THEN '-Infinity'"
        )
        return f"(CASE {cases} END)", tuple(params) * 4


class JsonPrefix(Func):
    """The first characters of a JSON text, compared by code points."""

    output_field = TextField()
    template = f"substr(%(expressions)s, 1, {PREFIX_LENGTH})"

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Return the SQL for PostgreSQL, whose default collation depends on the locale."""
        template = f'(substr(%(expressions)s, 1, {PREFIX_LENGTH}) COLLATE "C")'
        return super().as_sql(compiler, connection, template=template, **context)


class JsonAt(Func):
    """The JSON text of the value at a path inside a JSON text; null if there is none."""

    output_field = TextField()

    def __init__(self, text: Any, path: tuple[str | int, ...], **extra: Any) -> None:
        """Take the column and the path: names and indexes."""
        super().__init__(text, **extra)
        self.path = path

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Return the SQL for SQLite."""
        sql, params = compiler.compile(self.source_expressions[0])
        return f"({sql} -> %s)", (*params, sqlite_path(self.path))

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Return the SQL for PostgreSQL, whose JSON type rejects NUL."""
        sql, params = compiler.compile(self.source_expressions[0])
        steps = [str(step) for step in self.path]
        return rf"(CAST(replace({sql}, '\u0000', '\ufffd') AS json) #> %s::text[])::text", (*params, steps)


class _EventCondition(Func):
    """A condition on an event's kind and summary, written without parameters.

    Without parameters the database recognizes the partial index of the condition and chooses it.
    """

    output_field = BooleanField()
    conditional = True

    def as_sql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, *args: Any, **context: Any
    ) -> tuple[str, tuple[()]]:
        """Return the SQL."""
        kind, summary = (compiler.compile(column)[0] for column in self.source_expressions)
        return self._condition_sql(kind, summary, "instr" if connection.vendor == "sqlite" else "strpos"), ()

    def _condition_sql(self, kind: str, summary: str, find: str) -> str:
        """Return the SQL. `find` is the database's substring search function."""
        raise NotImplementedError


class IsRewindOrCompaction(_EventCondition):
    """SQL condition: the event is a rewind or a compaction, which change how earlier events are shown."""

    def _condition_sql(self, kind: str, summary: str, find: str) -> str:
        holds = " OR ".join(f"""{find}({summary}, '"{name}"') > 0""" for name in _ACTION_NAMES)
        return f"({kind} || '' = 'control' AND ({holds}))"


_ACTION_NAMES = ("rewindBeforeInvocationId", "compaction")
"""Names of these actions in event summaries. The index condition is built from them."""

IS_REWIND_OR_COMPACTION = Q(IsRewindOrCompaction("kind", "summary"))
"""Condition for queries on events, and of their partial index."""


class CountsAsError(_EventCondition):
    """SQL condition: the event is an error or contains the result of a failed tool.

    `events.is_error` decides the same for the wire form.
    """

    def _condition_sql(self, kind: str, summary: str, find: str) -> str:
        failed_tool = (
            f"""{kind} || '' IN ('tool_call', 'tool_result') AND {find}({summary}, '"failed":true') > 0"""
        )
        return f"({kind} || '' = 'error' OR ({failed_tool}))"


COUNTS_AS_ERROR = Q(CountsAsError("kind", "summary"))
"""Condition for queries on error events, and of their partial index."""


def sqlite_path(path: tuple[str | int, ...]) -> str:
    """Return a path in SQLite's JSON path syntax."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f'."{step}"' for step in path)
