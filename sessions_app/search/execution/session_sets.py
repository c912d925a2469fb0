"""The sessions that match a term: their primary keys if they are few, else conditions that select them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, Count, Exists, F, Func, OuterRef, Q, QuerySet, Value
from django.db.models.expressions import RawSQL
from django.db.models.lookups import In
from django.db.models.sql.compiler import SQLCompiler

from sessions_app.models import AgentSession

Lister = Callable[[], Q | None]
"""Builds the condition to be in a list read from an index; None if there is no such index or the list is too long."""


def no_list() -> Q | None:
    """Return None: no index lists the sessions."""
    return None


@dataclass(frozen=True, slots=True, eq=False)
class ConditionSet:
    """Sessions selected by conditions, because they are too many to name.

    Attributes:
        test: condition tested on each session; sufficient for a list whose page fills soon.
        listed: makes a list of the sessions, for when they are rare.
        others: makes a list of the sessions outside the set, as a condition to be on it, for when those are rare.
        is_sought: whether an index of sessions finds them directly by the test.
    """

    test: Q
    listed: Lister = no_list
    others: Lister = no_list
    is_sought: bool = False

    def complement(self) -> ConditionSet:
        """Return the set of all other sessions."""
        return ConditionSet(~self.test, self._list_others, self.listed)

    def _list_others(self) -> Q | None:
        others = self.others()
        if others is None and (listed := self.listed()) is not None:
            return ~listed
        return others


SessionSet = ConditionSet | set[int]


def complement_of(answer: SessionSet) -> SessionSet:
    """Return the complement of a set."""
    return ConditionSet(~in_keys(answer)) if isinstance(answer, set) else answer.complement()


FEW = 1_000
"""Maximum sessions of a set of primary keys."""

FEW_SHARED = 10_000
"""The same for sessions found by their users or apps, where no index lists them."""

SAMPLE = 100
"""Newest sessions sampled to estimate how common a condition is."""

ENTRIES_PER_SESSION = 3
"""Index entries read for each session of a set."""

LONGEST_LIST = 200_000
"""Maximum index entries of a list: testing each session is as fast as a longer one."""

MOST_READ = 20_000
"""Index entries read one by one for a substring match, for which no index is sorted."""


def in_keys(pks: Iterable[int]) -> Q:
    """Return the condition that a session has one of these primary keys."""
    return Q(InKeys(F("pk"), pks))


def is_common(*conditions: Q, of: Sequence[Q] = ()) -> bool:
    """Return whether so many of the newest sessions meet the conditions that a list soon fills a page.

    `of` restricts the sample. The conditions filter the count: so PostgreSQL tests them on each session and joins no
    tables for them.
    """
    newest = AgentSession.objects.filter(*of, realm="").order_by("-updated_at", "-pk").values("pk")[:SAMPLE]
    counted = Count("pk", filter=reduce(and_, conditions, Q()))
    count: int = AgentSession.objects.filter(pk__in=newest).aggregate(count=counted)["count"]
    return count * 5 >= SAMPLE


def in_subquery(subquery: Any) -> Q:
    """Return the condition that a session is in a subquery, which the database evaluates once.

    The addition keeps SQLite, and the alternative PostgreSQL, from looking up all listed sessions to sort them.
    """
    if connection.vendor == "sqlite":
        return Q(In(F("pk") + Value(0), subquery))
    return Q(In(F("pk"), subquery)) | Q(Value(False))


def has_more_rows(rows: QuerySet[Any], most: int) -> bool:
    """Return whether there are more than `most` rows."""
    return rows.order_by()[: most + 1].count() > most


def in_column(rows: QuerySet[Any], column: str, most: int = LONGEST_LIST) -> Q | None:
    """Return the condition that a session is in a column of rows; None if there are more than `most` rows.

    The LIMIT tells PostgreSQL, whose estimate may be higher, that a list fits its memory.
    """
    return None if has_more_rows(rows, most) else in_subquery(rows.order_by().values(column)[:most])


def sessions_of_rows(rows: QuerySet[Any], tail: Iterable[int] = ()) -> SessionSet:
    """Return the sessions that rows refer to, and those of the unindexed tail."""
    pks = list(rows.values_list("session", flat=True)[: FEW + 1])
    if len(pks) <= FEW:
        return {*pks, *tail}
    tail_pks = set(tail)

    def listed() -> Q | None:
        matches = in_column(rows, "session")
        return None if matches is None else matches | Q(pk__in=tail_pks)

    def others() -> Q | None:
        outside = sessions_not_in(sorted_statement(rows, "session"))
        return None if outside is None else in_keys(outside - tail_pks)

    test = Q(Exists(rows.filter(session=OuterRef("pk")))) | Q(pk__in=tail_pks)
    return ConditionSet(test, listed, others)


class Statement(NamedTuple):
    """An SQL statement that yields primary keys, and its parameters."""

    sql: str
    params: tuple[Any, ...]


def sorted_statement(rows: QuerySet[Any], column: str) -> Statement:
    """Return a statement that yields a column of rows in sorted order."""
    return Statement(*rows.order_by(column).values(column).query.sql_with_params())


def sessions_not_in(keys: Statement) -> set[int] | None:
    """Return the sessions that a statement does not yield; None if there are more than `FEW_SHARED`.

    With an index that has the sessions sorted this takes 0.2 microseconds for each session of the store.
    """
    with connection.cursor() as cursor:
        cursor.execute(_NOT_IN[connection.vendor].format(keys=keys.sql), [*keys.params, FEW_SHARED + 1])
        pks = {pk for (pk,) in cursor.fetchall()}
    return pks if len(pks) <= FEW_SHARED else None


_NOT_IN = {
    "sqlite": "SELECT id FROM sessions_app_agentsession EXCEPT SELECT * FROM ({keys}) ORDER BY 1 LIMIT %s",
    "postgresql": "SELECT s.id FROM sessions_app_agentsession s LEFT JOIN ({keys}) AS named(pk) ON named.pk = s.id"
    " WHERE named.pk IS NULL LIMIT %s",
}
"""Each database merges indexes, or builds one hash table, for its form."""


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
        plus = "+" if len(self.pks) > FEW else ""
        sql = f"({plus}{pk} IN (SELECT value FROM json_each(%s)))"  # noqa: S608 - a column
        return sql, (*params, str(self.pks))

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Return the SQL for PostgreSQL."""
        pk, params = compiler.compile(self.source_expressions[0])
        return f"({pk} = ANY(%s::bigint[]))", (*params, self.pks)


def keys_statement(pks: Iterable[int]) -> Statement:
    """Return a statement that yields these keys; it has one parameter, however many keys."""
    if connection.vendor == "sqlite":
        return Statement("SELECT value FROM json_each(%s)", (str(list(pks)),))
    return Statement("SELECT unnest(%s::bigint[])", (list(pks),))


def keys_subquery(pks: Iterable[int]) -> RawSQL:
    """Return the keys as a subquery with one parameter."""
    return RawSQL(*keys_statement(pks))  # noqa: S611 - one of two constants
