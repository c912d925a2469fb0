"""Answers to a term: the primary keys of its sessions where they are few, else what tells them from others."""

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

Lister = Callable[[int], Q | None]
"""Makes a list out of at most so many entries of an index: the condition to be on it; None: there are more entries."""


@dataclass(frozen=True, slots=True, eq=False)
class ConditionSet:
    """Sessions too many to name.

    Attributes:
        test: tells on each session whether it is one of them. A list that soon finds a page needs no more.
        listed: tells it by a list that an index makes at once, for sessions that are far between; None: no index can.
        others: tells by such a list which ones are not, where those are far between; None: only `listed` can.
        is_sought: an index of sessions has these side by side, so that it finds them by the test.
        is_slow: a test takes as long as dozens of entries of a list.
        some: a few of the sessions, where an index told them in passing.
    """

    test: Q
    listed: Lister | None = None
    others: Lister | None = None
    is_sought: bool = False
    is_slow: bool = False
    some: frozenset[int] = frozenset()

    def turned(self) -> ConditionSet:
        """Return all other sessions."""
        listed = self.listed
        if self.others is None and listed is not None:
            return ConditionSet(
                ~self.test, lambda most: negate_list(listed(most)), listed, is_slow=self.is_slow
            )
        return ConditionSet(~self.test, self.others, listed, is_slow=self.is_slow)


SessionSet = ConditionSet | set[int]


def negate_list(listed: Q | None) -> Q | None:
    """Return the condition not to be on a list, where there is one."""
    return None if listed is None else ~listed


def complement_of(answer: SessionSet) -> SessionSet:
    """Return all sessions but these."""
    return ConditionSet(~in_keys(answer)) if isinstance(answer, set) else answer.turned()


FEW = 1_000
"""Sessions by whose keys a term is answered."""

FEW_SHARED = 10_000
"""The same where they are found by their users or apps, and no index lists them."""

SAMPLE = 100
"""Newest sessions that tell whether a condition is common."""

ENTRIES_PER_SESSION = 3
"""Entries of an index, for each of these, that are read to learn which sessions they are."""

LONGEST_LIST = 200_000
"""Entries of an index beyond which testing sessions takes no longer than to list them."""

MOST_READ = 20_000
"""Entries of an index that are read one by one for a part of a text, by which no index is sorted."""


def in_keys(pks: Iterable[int]) -> Q:
    """Return the condition that a session is one of these."""
    return Q(InKeys(F("pk"), pks))


def is_common(*conditions: Q, of: Sequence[Q] = ()) -> bool:
    """Tell whether enough of the newest sessions, `of` those that meet some, are so that a list soon finds a page.

    The conditions filter what is counted, where PostgreSQL tests them on each session, and joins no tables for it.
    """
    newest = AgentSession.objects.filter(*of, realm="").order_by("-updated_at", "-pk").values("pk")[:SAMPLE]
    counted = Count("pk", filter=reduce(and_, conditions, Q()))
    found: int = AgentSession.objects.filter(pk__in=newest).aggregate(found=counted)["found"]
    return found * 5 >= SAMPLE


def in_subquery(subquery: Any) -> Q:
    """Return the condition that a session is in a list, which the database makes once.

    The sum keeps SQLite, and the alternative PostgreSQL, from looking all of the listed sessions up, to sort them.
    """
    if connection.vendor == "sqlite":
        return Q(In(F("pk") + Value(0), subquery))
    return Q(In(F("pk"), subquery)) | Q(Value(False))


def has_more_rows(rows: QuerySet[Any], most: int) -> bool:
    """Tell whether there are more than so many rows."""
    return rows.order_by()[: most + 1].count() > most


def in_column(rows: QuerySet[Any], column: str, most: int) -> Q | None:
    """Return the condition that a column of rows lists a session; None: they are more than `most`.

    The limit tells PostgreSQL, which may expect more, that a list fits its memory.
    """
    return None if has_more_rows(rows, most) else in_subquery(rows.order_by().values(column)[:most])


def sessions_of_rows(rows: QuerySet[Any], tail: Iterable[int] = ()) -> SessionSet:
    """Return the sessions that rows point to, and those of the tail."""
    pks = list(rows.values_list("session", flat=True)[: FEW + 1])
    if len(pks) <= FEW:
        return {*pks, *tail}
    late = set(tail)
    test = Q(Exists(rows.filter(session=OuterRef("pk")))) | Q(pk__in=late)

    def listed(most: int) -> Q | None:
        found = in_column(rows, "session", most)
        return None if found is None else found | Q(pk__in=late)

    def others(most: int) -> Q | None:
        found = sessions_not_in(sorted_statement(rows, "session"))
        return negate_list(listed(most)) if found is None else in_keys(found - late)

    return ConditionSet(test, listed, others, some=frozenset(pks))


class Statement(NamedTuple):
    """A statement that yields primary keys, and its parameters."""

    sql: str
    given: tuple[Any, ...]


def sorted_statement(rows: QuerySet[Any], column: str) -> Statement:
    """Return the statement that yields a column of rows, in its order."""
    return Statement(*rows.order_by(column).values(column).query.sql_with_params())


def sessions_not_in(named: Statement) -> set[int] | None:
    """Return the sessions that a statement does not yield; None: they are more than `FEW_SHARED`.

    Out of an index that has the sessions sorted this takes a fifth of a microsecond for each session of the store.
    """
    with connection.cursor() as cursor:
        cursor.execute(_NOT_IN[connection.vendor].format(named=named.sql), [*named.given, FEW_SHARED + 1])
        found = {pk for (pk,) in cursor.fetchall()}
    return found if len(found) <= FEW_SHARED else None


_NOT_IN = {
    "sqlite": "SELECT id FROM sessions_app_agentsession EXCEPT SELECT * FROM ({named}) ORDER BY 1 LIMIT %s",
    "postgresql": "SELECT s.id FROM sessions_app_agentsession s LEFT JOIN ({named}) AS named(pk) ON named.pk = s.id"
    " WHERE named.pk IS NULL LIMIT %s",
}
"""Each is what its database merges out of indexes, or makes one hash table for."""


class InKeys(Func):
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
        plus = "+" if len(self.pks) > FEW else ""
        sql = f"({plus}{pk} IN (SELECT value FROM json_each(%s)))"  # noqa: S608 - a column
        return sql, (*params, str(self.pks))

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        """Write it for PostgreSQL."""
        pk, params = compiler.compile(self.source_expressions[0])
        return f"({pk} = ANY(%s::bigint[]))", (*params, self.pks)


def keys_statement(pks: Iterable[int]) -> Statement:
    """Return a subquery that yields keys; it has one parameter, however many they are."""
    if connection.vendor == "sqlite":
        return Statement("SELECT value FROM json_each(%s)", (str(list(pks)),))
    return Statement("SELECT unnest(%s::bigint[])", (list(pks),))


def keys_subquery(pks: Iterable[int]) -> RawSQL:
    """Return keys as a subquery of one parameter."""
    return RawSQL(*keys_statement(pks))  # noqa: S611 - one of two constants
