"""The sessions that match a term: their primary keys if they are few, else a condition tested on each session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, Exists, F, Func, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.sql.compiler import SQLCompiler

SessionSet = set[int] | Q
"""Primary keys of sessions, or a condition on sessions."""

FEW = 5_000
"""Maximum sessions of a set of primary keys, and entries of an index that are read for one."""

MAX_SORTED = 1_000
"""Sessions that SQLite looks up and sorts; of more it walks the list and tests each."""


def membership_condition(sessions: SessionSet, *, negated: bool = False) -> Q:
    """Return the condition that a session belongs to a set, or does not."""
    condition = Q(InKeys(F("pk"), sessions)) if isinstance(sessions, set) else sessions
    return ~condition if negated else condition


def row_sessions(rows: QuerySet[Any], tail: Iterable[int] = ()) -> SessionSet:
    """Return the sessions that rows refer to, and those of the unindexed tail."""
    pks = list(rows.values_list("session", flat=True)[: FEW + 1])
    if len(pks) <= FEW:
        return {*pks, *tail}
    return Q(Exists(rows.filter(session=OuterRef("pk")))) | Q(pk__in=set(tail))


class InKeys(Func):
    """Condition that a session, named by its primary key, is one of these: one parameter, however many keys."""

    output_field = BooleanField()
    conditional = True

    def __init__(self, session_pk: Any, pks: Iterable[int] = (), **extra: Any) -> None:
        """Take the column and the keys."""
        super().__init__(session_pk, **extra)
        self.pks = list(pks)

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Return the SQL for SQLite. The plus keeps SQLite from looking up each of many sessions to sort them."""
        pk, params = compiler.compile(self.source_expressions[0])
        plus = "+" if len(self.pks) > MAX_SORTED else ""
        sql = f"({plus}{pk} IN (SELECT value FROM json_each(%s)))"  # noqa: S608 - a column
        return sql, (*params, str(self.pks))

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Return the SQL for PostgreSQL."""
        pk, params = compiler.compile(self.source_expressions[0])
        return f"({pk} = ANY(%s::bigint[]))", (*params, self.pks)


class Statement(NamedTuple):
    """An SQL statement that yields primary keys, and its parameters."""

    sql: str
    params: tuple[Any, ...]


def keys_statement(pks: Iterable[int]) -> Statement:
    """Return a statement that yields these keys; it has one parameter, however many keys."""
    if connection.vendor == "sqlite":
        return Statement("SELECT value FROM json_each(%s)", (str(list(pks)),))
    return Statement("SELECT unnest(%s::bigint[])", (list(pks),))


def keys_subquery(pks: Iterable[int]) -> RawSQL:
    """Return the keys as a subquery with one parameter."""
    return RawSQL(*keys_statement(pks))  # noqa: S611 - one of two constants
