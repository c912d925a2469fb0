"""Current state that sessions share: the keys of an app and of a user, with the last write of each."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from django.db import connection
from django.db.models import Count, QuerySet

from sessions_app.lookup import list_apps_with_sessions
from sessions_app.search.execution.state_terms import current_rows, written_key_term
from sessions_app.search.query.terms import Field, Query, StateTerm, When
from sessions_app.store.errors import BadInput
from sessions_app.store.models import (
    STATE_ROWS,
    AgentSession,
    AppScope,
    Scope,
    StateChange,
    UserScope,
)
from sessions_app.store.state import history
from sessions_app.store.state.points import FEW_KEYS

PAGE_SIZE = 100
MAX_USERS, MAX_REMOVED = 200, 20
"""Maximum users of an app, and removed keys, that are listed."""

MAX_FOUND = 50
"""Maximum keys that a search lists."""

_REMOVED_KEYS = f"""
{history.EVERY_KEY}
SELECT {history.last_write_sql("anywhere")} FROM keys WHERE keys.key_id IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM {{table}} AS stored WHERE stored.owner_id = %(owner)s AND stored.key_id = keys.key_id
) LIMIT %(most)s
"""  # noqa: S608 - pieces of our own
"""The last writes of an owner's removed keys."""

_ANYWHERE = 2**62
"""A position above all others."""


@dataclass(frozen=True, slots=True)
class KeyPage:
    """A page of the keys of an app or of a user in it, sorted by key.

    Attributes:
        owner: None if nothing was ever written.
        rows: the ledger row that last wrote each key, with `writes`, the number of its writes.
        more: cursor of the next page; empty on the last.
        gone: the writes that removed keys, on the first page; empty for an owner with very many keys.
    """

    scope: Scope
    owner: AppScope | UserScope | None
    rows: list[StateChange]
    more: str = ""
    gone: tuple[StateChange, ...] = ()


def app_keys(app_name: str, after: str = "") -> KeyPage:
    """Return the shared keys of an app."""
    owner = AppScope.objects.filter(realm="", app_name=app_name).first()
    return _read_page(Scope.APP, owner, after)


def user_keys(app_name: str, user_id: str, after: str = "") -> KeyPage:
    """Return the shared keys of a user in an app."""
    owner = UserScope.objects.filter(realm="", app_name=app_name, user_id=user_id).first()
    return _read_page(Scope.USER, owner, after)


@dataclass(frozen=True, slots=True)
class AppStateCounts:
    """The number of an app's shared keys, and of its users with shared keys."""

    app_name: str
    key_count: int
    user_count: int


def apps_with_state() -> list[AppStateCounts]:
    """Return the apps with shared state, sorted."""
    keys = AppScope.objects.filter(realm="").values_list("app_name").annotate(Count("state_rows"))
    users = UserScope.objects.filter(realm="").values_list("app_name").annotate(Count("pk"))
    key_counts, user_counts = dict(keys), dict(users)
    names = sorted(key_counts.keys() | user_counts.keys())
    return [AppStateCounts(name, key_counts.get(name, 0), user_counts.get(name, 0)) for name in names]


def users_with_state(app_name: str) -> tuple[list[UserScope], bool]:
    """Return the users of an app with shared state, sorted, with `key_count`, and whether there are more."""
    owners = UserScope.objects.filter(realm="", app_name=app_name).annotate(key_count=Count("state_rows"))
    users: list[UserScope] = list(owners.order_by("user_id")[: MAX_USERS + 1])
    return users[:MAX_USERS], len(users) > MAX_USERS


def list_user_apps(user_id: str) -> list[str]:
    """Return the apps in which a user has sessions or state, sorted. Three queries."""
    names = {
        *list_apps_with_sessions(),
        *AppScope.objects.filter(realm="").values_list("app_name", flat=True),
    }
    owner_filter = {"realm": "", "app_name__in": names, "user_id": user_id}
    owners = UserScope.objects.filter(**owner_filter).values_list("app_name")
    talkers = AgentSession.objects.filter(**owner_filter).order_by().values_list("app_name")
    return sorted(row[0] for row in owners.union(talkers))


@dataclass(frozen=True, slots=True)
class FoundKeys:
    """Shared keys that a search found, of each app and user; `is_cut`: there are more."""

    boards: list[KeyPage]
    is_cut: bool


def find_keys(query: Query, app_name: str = "", user_id: str = "") -> FoundKeys:
    """Return the shared keys whose current value matches, of all apps and users or of those named. Two queries.

    Raises:
        BadInput: the query is not one term about the current value of a shared key.
    """
    term = _require_shared_key(query)
    owners = {"owner__realm": "", "owner__app_name": app_name, "owner__user_id": user_id}
    if term.scope is Scope.APP:
        del owners["owner__user_id"]
    filters = {name: value for name, value in owners.items() if value or name == "owner__realm"}
    matching = current_rows(term).filter(**filters).select_related("owner").defer("value", "private")
    rows = list(matching.order_by(*owners, "owner")[: MAX_FOUND + 1])
    writes = _read_last_writes(term.scope, rows[:MAX_FOUND])
    boards = [
        KeyPage(
            term.scope,
            owner,
            [writes[key] for row in of_owner if (key := (row.owner_id, row.key_id)) in writes],
        )
        for owner, of_owner in groupby(rows[:MAX_FOUND], key=lambda row: row.owner)
    ]
    return FoundKeys(boards, len(rows) > MAX_FOUND)


def _require_shared_key(query: Query) -> StateTerm:
    """Return the only term of a query, about the current value of a key of an app or a user.

    Raises:
        BadInput: the query is another.
    """
    term = query.terms[0] if len(query.terms) == 1 else None
    if isinstance(term, Field) and term.name == "key" and not term.negated:
        term = replace(written_key_term(term.value), when=When.NOW)
    if not isinstance(term, StateTerm) or term.negated or term.when is not When.NOW:
        raise BadInput(
            "Shared values are found by one key.",
            hint='Write user:units = "metric", app:limit > 3 or key:app:limit.',
        )
    if term.scope is Scope.SESSION:
        raise BadInput(
            f"{term.name!r} is a key of sessions, not shared state.",
            hint="Find sessions by it, or write the prefix user: or app: of a shared key.",
        )
    return term


def _read_page(scope: Scope, owner: AppScope | UserScope | None, after: str) -> KeyPage:
    if owner is None:
        return KeyPage(scope, None, [])
    table = STATE_ROWS[scope]
    stored: QuerySet[Any] = table._default_manager.filter(owner_id=owner.pk, key_id__gt=after)
    rows = list(stored.order_by("key_id").only("key_id", "position", "owner_id")[: PAGE_SIZE + 1])
    writes = _read_last_writes(scope, rows[:PAGE_SIZE])
    more = rows[PAGE_SIZE - 1].key_id if len(rows) > PAGE_SIZE else ""
    removals = () if after else _removed_keys(scope, table, owner.pk)
    return KeyPage(scope, owner, list(writes.values()), more, removals)


def _read_last_writes(scope: Scope, rows: Collection[Any]) -> dict[tuple[int, str], StateChange]:
    """Return the ledger row that last wrote each of some state rows, by owner and key id, in their order. One query."""
    positions = {(row.owner_id, row.key_id): row.position for row in rows}
    changes = StateChange.objects.filter(
        scope=scope,
        owner_id__in={owner_id for owner_id, _ in positions},
        key_id__in={key_id for _, key_id in positions},
        position__in=set(positions.values()),
    )
    found = {
        (change.owner_id, change.key_id): change
        for change in changes.annotate(writes=history.write_count())
        .select_related("session")
        .defer("private")
        if change.position == positions.get((change.owner_id, change.key_id))
    }
    return {key: found[key] for key in positions if key in found}


def _removed_keys(scope: Scope, table: type[Any], owner_id: int) -> tuple[StateChange, ...]:
    """Return the writes that removed keys of an owner, by key; empty if it has very many keys."""
    if table.objects.filter(owner_id=owner_id)[: FEW_KEYS + 1].count() > FEW_KEYS:
        return ()
    params: dict[str, str | int] = {
        "scope": str(scope),
        "owner": owner_id,
        "anywhere": _ANYWHERE,
        "most": MAX_REMOVED,
    }
    with connection.cursor() as cursor:
        cursor.execute(_REMOVED_KEYS.format(table=table._meta.db_table), params)
        pks = [pk for (pk,) in cursor.fetchall()]
    return tuple(StateChange.objects.filter(pk__in=pks).order_by("key_id").defer("private", "value"))
