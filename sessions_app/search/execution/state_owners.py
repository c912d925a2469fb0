"""Owners of shared state and the sessions that read it. A session has its user's and app's name, no foreign key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import connection
from django.db.models import OuterRef, QuerySet

from sessions_app.search.execution.session_sets import FEW, keys_statement
from sessions_app.store.models import AgentSession, AppScope, Scope, UserScope

OWNERS: dict[Scope, QuerySet[Any]] = {
    Scope.USER: UserScope.objects.all(),
    Scope.APP: AppScope.objects.all(),
}

_IDENTITY = {Scope.USER: ("realm", "app_name", "user_id"), Scope.APP: ("realm", "app_name")}


def owner_of_outer_session(scope: Scope) -> QuerySet[Any]:
    """Return a subquery of the user or app of an outer query's session."""
    return OWNERS[scope].filter(**{name: OuterRef(name) for name in _IDENTITY[scope]})


def owner_keys(session: AgentSession, scope: Scope) -> Any:
    """Return the primary keys of a session's owner of a scope."""
    if scope is Scope.SESSION:
        return [session.pk]
    return OWNERS[scope].filter(**{name: getattr(session, name) for name in _IDENTITY[scope]}).values("pk")


def find_sessions_of(scope: Scope, owners: Iterable[int]) -> list[int]:
    """Return the sessions of users or apps, at most `FEW` + 1. The cross join makes SQLite begin with the owners."""
    keys, table = keys_statement(owners), OWNERS[scope].model._meta.db_table
    same = " AND ".join(f"s.{name} = o.{name}" for name in _IDENTITY[scope])
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT s.id FROM {table} o CROSS JOIN {AgentSession._meta.db_table} s"  # noqa: S608 - our own tables
            f" WHERE o.id IN ({keys.sql}) AND {same} LIMIT %s",
            [*keys.params, FEW + 1],
        )
        return [pk for (pk,) in cursor.fetchall()]
