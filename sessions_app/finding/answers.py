"""Answers to a term: the primary keys of its sessions where they are few, else a condition that is tested on each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, Exists, F, Func, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.sql.compiler import SQLCompiler

from sessions_app.models import AgentSession

Answer = Q | set[int]

FEW = 10_000
"""Sessions by whose keys a term is answered; of more, a list finds a page soon enough by itself."""

FEW_TO_CHECK = 1_000
"""The same where each key is looked up again."""

MANY = 200_000
"""Sessions by whose keys a term is answered that asks for the others, which may be far between."""

SAMPLE = 250
"""Newest sessions that tell whether a condition is common."""

ENTRIES = 3
"""Entries of an index, for each of these, that are read to learn which sessions they are."""


def among(pks: Iterable[int]) -> Q:
    """Return the condition that a session is one of these."""
    return Q(Among(F("pk"), pks))


def is_common(condition: Q) -> bool:
    """Tell whether enough of the newest sessions are so that a list soon finds a page of them."""
    newest = AgentSession.objects.filter(realm="").order_by("-updated_at", "-pk").values("pk")[:SAMPLE]
    return AgentSession.objects.filter(condition, pk__in=newest).count() * 5 >= SAMPLE


def keys_or_condition(rows: QuerySet[Any], most: int, tail: Iterable[int] = ()) -> Answer:
    """Return the sessions that rows point to, and those of the tail."""
    pks = list(rows.values_list("session", flat=True)[: most + 1])
    if len(pks) <= most:
        return {*pks, *tail}
    return Q(Exists(rows.filter(session=OuterRef("pk")))) | Q(pk__in=set(tail))


class Among(Func):
    """Whether a session, named by its primary key, is one of these: one parameter, however many they are."""

    output_field = BooleanField()
    conditional = True

    def __init__(self, session_pk: Any, pks: Iterable[int] = (), **extra: Any) -> None:
        """Take the column and the keys."""
        super().__init__(session_pk, **extra)
        self.pks = list(pks)

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Write it for SQLite. The plus keeps it from looking each of many sessions up, to sort them all."""
        pk, params = compiler.compile(self.source_expressions[0])
        plus = "+" if len(self.pks) > FEW_TO_CHECK else ""
        sql = f"({plus}{pk} IN (SELECT value FROM json_each(%s)))"  # noqa: S608 - a column
        return sql, (*params, str(self.pks))

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Write it for PostgreSQL."""
        pk, params = compiler.compile(self.source_expressions[0])
        return f"({pk} = ANY(%s::bigint[]))", (*params, self.pks)


def listed(pks: Iterable[int]) -> tuple[str, Any]:
    """Return a subquery that yields keys, and its one parameter."""
    if connection.vendor == "sqlite":
        return "SELECT value FROM json_each(%s)", str(list(pks))
    return "SELECT unnest(%s::bigint[])", list(pks)


def list_of(pks: Iterable[int]) -> RawSQL:
    """Return keys as a subquery of one parameter."""
    sql, given = listed(pks)
    return RawSQL(sql, [given])  # noqa: S611 - one of two constants
