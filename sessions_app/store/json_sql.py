"""JSON values in text columns, compared by their type: as SQL expressions, and as marks that an index sorts. Pure.

JSON's own functions do not do: PostgreSQL's jsonb refuses NUL, lone surrogates and NaN. A value's type shows in its
first character.
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
"""Characters of a value that are compared in order, and that a mark holds."""

NUMBER, STRING, OTHER = "n", "s", "j"
"""How marks of numbers, strings and all else begin."""

ANY = ""
"""The mark of any value: one more for each key of an owner that ever had one, before the marks of its values."""

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""Stands in marks for NUL, which PostgreSQL's texts cannot hold."""

_SIGN_BIT = 1 << 63
_ALL_BITS = (1 << 64) - 1


def mark(text: str) -> str:
    """Return the mark of a value by its JSON text: marks of one type sort as the values do.

    Two values of one mark can differ only behind their first `START` characters, or as integers beyond 2**53.
    """
    first = text[:1]
    if first == '"':
        return (
            STRING + (json.loads(text) if "\\" in text else text[1:-1]).replace("\0", UNKNOWN)[:PREFIX_LENGTH]
        )
    if first and first in "-0123456789":
        return mark_of_number(float(text))
    return OTHER + text[:PREFIX_LENGTH]


def mark_of_number(number: float) -> str:
    """Return the mark of a number."""
    return NUMBER + _sortable_hex(number)


def _sortable_hex(number: float) -> str:
    """Return hexadecimal digits that sort as numbers do."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", number + 0.0))
    return f"{(~bits & _ALL_BITS) if bits & _SIGN_BIT else bits | _SIGN_BIT:016x}"


class MarkField(models.TextField):  # type: ignore[type-arg]  # generic in the stubs alone
    """A text that sorts by its code points on every database."""

    def db_parameters(self, connection: BaseDatabaseWrapper) -> dict[str, Any]:
        """Return the column's type and order; SQLite's own order is that of code points."""
        collation = "C" if connection.vendor == "postgresql" else None
        return {**super().db_parameters(connection), "collation": collation}


class JsonNumber(Func):
    """The number that a JSON text is, null when it is none; infinite when it is larger than a database's numbers."""

    output_field = FloatField()

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Write it for SQLite."""
        sql, params = compiler.compile(self.source_expressions[0])
        is_number = f"substr({sql}, 1, 1) IN ('-','0','1','2','3','4','5','6','7','8','9')"
        return f"(CASE WHEN {is_number} THEN CAST({sql} AS REAL) END)", (*params, *params)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Write it for PostgreSQL, whose cast refuses what does not fit."""
        sql, params = compiler.compile(self.source_expressions[0])
        cases = (
            f"WHEN {sql} ~ '^-?[0-9]{{1,255}}([.eE]|$)' THEN CAST({sql} AS double precision)"
            f" WHEN {sql} ~ '^[0-9]' THEN 'Infinity' WHEN {sql} ~ '^-[0-9]' THEN '-Infinity'"
        )
        return f"(CASE {cases} END)", tuple(params) * 4


class JsonPrefix(Func):
    """The first characters of a JSON text, in the order of their code points."""

    output_field = TextField()
    template = f"substr(%(expressions)s, 1, {PREFIX_LENGTH})"

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Write it for PostgreSQL, whose default order is a language's."""
        template = f'(substr(%(expressions)s, 1, {PREFIX_LENGTH}) COLLATE "C")'
        return super().as_sql(compiler, connection, template=template, **context)


class JsonAt(Func):
    """The JSON text of what stands at a path into a JSON text; null when nothing does. SQLite: scalars as JSON."""

    output_field = TextField()

    def __init__(self, text: Any, path: tuple[str | int, ...], **extra: Any) -> None:
        """Take the column, and names and indexes into its value."""
        super().__init__(text, **extra)
        self.path = path

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Write it for SQLite."""
        sql, params = compiler.compile(self.source_expressions[0])
        return f"({sql} -> %s)", (*params, sqlite_path(self.path))

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Write it for PostgreSQL, whose JSON holds no NUL."""
        sql, params = compiler.compile(self.source_expressions[0])
        steps = [str(step) for step in self.path]
        return rf"(CAST(replace({sql}, '\u0000', '\ufffd') AS json) #> %s::text[])::text", (*params, steps)


class _EventCondition(Func):
    """A condition on an event's kind and summary, written without parameters.

    So a database sees that the condition's own index answers it, and that no other index of kinds does.
    """

    output_field = BooleanField()
    conditional = True

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Write it for SQLite."""
        return self._condition(*self._columns(compiler), "instr"), ()

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Write it for PostgreSQL."""
        return self._condition(*self._columns(compiler), "strpos"), ()

    def _columns(self, compiler: SQLCompiler) -> tuple[str, str]:
        kind, summary = (compiler.compile(column)[0] for column in self.source_expressions)
        return kind, summary

    def _condition(self, kind: str, summary: str, find: str) -> str:
        """Return the SQL. `find` is the database's function that finds a text in another."""
        raise NotImplementedError


class IsRewindOrCompaction(_EventCondition):
    """Whether an event, by its kind and its summary, changes how those before it are shown: it rewinds, or sums up."""

    def _condition(self, kind: str, summary: str, find: str) -> str:
        holds = " OR ".join(f"""{find}({summary}, '"{name}"') > 0""" for name in _ACTION_NAMES)
        return f"({kind} || '' = 'control' AND ({holds}))"


_ACTION_NAMES = ("rewindBeforeInvocationId", "compaction")
"""Names of what such events do, in their summaries. An index is made of them."""

IS_REWIND_OR_COMPACTION = Q(IsRewindOrCompaction("kind", "summary"))
"""The condition on events, and of the index that finds them."""


class CountsAsError(_EventCondition):
    """Whether an event, by its kind and its summary, is an error or brings the result of a tool that failed.

    `wire.is_error` says the same of an event's wire form.
    """

    def _condition(self, kind: str, summary: str, find: str) -> str:
        failed_tool = (
            f"""{kind} || '' IN ('tool_call', 'tool_result') AND {find}({summary}, '"failed":true') > 0"""
        )
        return f"({kind} || '' = 'error' OR ({failed_tool}))"


COUNTS_AS_ERROR = Q(CountsAsError("kind", "summary"))
"""The condition on events that are errors, and of the index that finds them."""


def sqlite_path(path: tuple[str | int, ...]) -> str:
    """Return a path as SQLite writes it: names in quotation marks."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f'."{step}"' for step in path)
