"""Owners of state and the sessions that read it. Sessions name their user and their app, they do not point there."""

# ruff: noqa: S608 - what is put into statements are names of our own tables and columns

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import connection
from django.db.models import OuterRef, QuerySet

from sessions_app.finding.answers import FEW_SHARED, listed
from sessions_app.models import (
    AgentSession,
    AppScope,
    AppState,
    Scope,
    SessionState,
    UserScope,
    UserState,
)

STATE_ROWS: dict[Scope, QuerySet[Any]] = {
    Scope.SESSION: SessionState.objects.all(),
    Scope.USER: UserState.objects.all(),
    Scope.APP: AppState.objects.all(),
}
OWNERS: dict[Scope, QuerySet[Any]] = {
    Scope.USER: UserScope.objects.all(),
    Scope.APP: AppScope.objects.all(),
}

_SESSIONS = AgentSession._meta.db_table
_IDENTITY = {Scope.USER: ("realm", "app_name", "user_id"), Scope.APP: ("realm", "app_name")}


def of_the_row(scope: Scope) -> QuerySet[Any]:
    """Return the user or app of a session that an outer query looks at."""
    return OWNERS[scope].filter(**{name: OuterRef(name) for name in _IDENTITY[scope]})


def of_session(session: AgentSession, scope: Scope) -> Any:
    """Return the keys of a session's owner of a scope."""
    if scope is Scope.SESSION:
        return [session.pk]
    return OWNERS[scope].filter(**{name: getattr(session, name) for name in _IDENTITY[scope]}).values("pk")


def sessions_of(scope: Scope, owners: Iterable[int]) -> list[int]:
    """Return the sessions of users or apps, at most one more than `FEW_SHARED`."""
    return _sessions_like(OWNERS[scope].model._meta.db_table, scope, owners)


def sessions_beside(scope: Scope, pks: Iterable[int]) -> list[int]:
    """Return the sessions that share a user or an app with these ones, at most one more than `FEW_SHARED`."""
    return _sessions_like(_SESSIONS, scope, pks)


def _sessions_like(table: str, scope: Scope, pks: Iterable[int]) -> list[int]:
    same = " AND ".join(f"s.{name} = o.{name}" for name in _IDENTITY[scope])
    keys, given = listed(pks)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT s.id FROM {table} o CROSS JOIN {_SESSIONS} s WHERE o.id IN ({keys}) AND {same} LIMIT %s",
            [given, FEW_SHARED + 1],
        )
        return [pk for (pk,) in cursor.fetchall()]


_ONE_OF_EACH = """
WITH RECURSIVE each(id, number) AS (
    SELECT (SELECT id FROM {table} WHERE realm = '' ORDER BY app_name, user_id LIMIT 1), 1
    UNION ALL
    SELECT coalesce({next}), number + 1 FROM each JOIN {table} o ON o.id = each.id WHERE number <= {most}
)
SELECT id FROM each WHERE id IS NOT NULL
"""
_NEXT_USER = """
(SELECT id FROM {table} WHERE realm = '' AND app_name = o.app_name AND user_id > o.user_id ORDER BY user_id LIMIT 1)
"""
_NEXT_APP = """
(SELECT id FROM {table} WHERE realm = '' AND app_name > o.app_name ORDER BY app_name, user_id LIMIT 1)
"""
_NEXT = {Scope.USER: f"{_NEXT_USER}, {_NEXT_APP}", Scope.APP: f"{_NEXT_APP}, NULL"}


def one_of_each(scope: Scope) -> list[int]:
    """Return a session of real life for each user or app, at most one more than `FEW_SHARED`.

    By skipping along the index of what names sessions: one or two seeks each, however many sessions they have.
    """
    step = _NEXT[scope].format(table=_SESSIONS)
    with connection.cursor() as cursor:
        cursor.execute(_ONE_OF_EACH.format(table=_SESSIONS, next=step, most=FEW_SHARED))
        return [pk for (pk,) in cursor.fetchall()]
