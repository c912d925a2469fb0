"""Owners of shared state and the sessions that read it. A session has its user's and app's name, no foreign key."""

# ruff: noqa: S608 - what is put into statements are names of our own tables and columns

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import connection
from django.db.models import OuterRef, QuerySet

from sessions_app.models import AgentSession, AppScope, Scope, UserScope
from sessions_app.search.execution.session_sets import FEW_SHARED, Statement, keys_statement

OWNERS: dict[Scope, QuerySet[Any]] = {
    Scope.USER: UserScope.objects.all(),
    Scope.APP: AppScope.objects.all(),
}

_SESSIONS = AgentSession._meta.db_table
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
    """Return the sessions of users or apps, at most `FEW_SHARED` + 1."""
    return _find_sessions_by_names(scope, _names_of(scope, owners))


def find_sessions_without(scope: Scope, owners: Iterable[int], *, where: str = "true") -> list[int]:
    """Return the sessions whose user or app is none of these, at most `FEW_SHARED` + 1.

    The names in sessions are read by skipping along their index; the names of the owners are subtracted from them.
    """
    everyone = f"SELECT DISTINCT {', '.join(_IDENTITY[scope])} FROM {_SESSIONS} WHERE {where}"
    names = _names_of(scope, owners)
    others = Statement(f"SELECT * FROM ({everyone}) AS everyone EXCEPT {names.sql}", names.params)
    return _find_sessions_by_names(scope, others)


def _names_of(scope: Scope, owners: Iterable[int]) -> Statement:
    keys, table = keys_statement(owners), OWNERS[scope].model._meta.db_table
    return Statement(
        f"SELECT {', '.join(_IDENTITY[scope])} FROM {table} WHERE id IN ({keys.sql})", keys.params
    )


def _find_sessions_by_names(scope: Scope, names: Statement) -> list[int]:
    same = " AND ".join(f"s.{name} = o.{name}" for name in _IDENTITY[scope])
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT s.id FROM ({names.sql}) AS o CROSS JOIN {_SESSIONS} s WHERE {same} LIMIT %s",
            [*names.params, FEW_SHARED + 1],
        )
        return [pk for (pk,) in cursor.fetchall()]
