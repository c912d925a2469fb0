"""Current state that sessions share: the keys of an app and of a user, with the last write of each."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection
from django.db.models import Count

from sessions_app.lookup import list_apps_with_sessions
from sessions_app.store.models import (
    AgentSession,
    AppScope,
    AppState,
    Scope,
    StateChange,
    UserScope,
    UserState,
)
from sessions_app.store.state import history
from sessions_app.store.state.points import FEW_KEYS

PAGE_SIZE = 100
MAX_USERS, MAX_REMOVED = 200, 20
"""Maximum users of an app, and removed keys, that are listed."""

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
    """A page of a scope's keys, sorted by key.

    Attributes:
        owner_id: primary key of the `AppScope` or `UserScope`; None if nothing was ever written.
        rows: the ledger row that last wrote each key, with `writes`, the number of its writes.
        more: cursor of the next page; empty on the last.
        gone: the writes that removed keys, on the first page; empty for an owner with very many keys.
    """

    scope: Scope
    owner_id: int | None
    rows: list[StateChange]
    more: str = ""
    gone: tuple[StateChange, ...] = ()


def app_keys(app_name: str, after: str = "") -> KeyPage:
    """Return the shared keys of an app."""
    owner = AppScope.objects.filter(realm="", app_name=app_name).first()
    return _read_page(Scope.APP, AppState, owner.pk if owner else None, after)


def user_keys(app_name: str, user_id: str, after: str = "") -> KeyPage:
    """Return the shared keys of a user in an app."""
    owner = UserScope.objects.filter(realm="", app_name=app_name, user_id=user_id).first()
    return _read_page(Scope.USER, UserState, owner.pk if owner else None, after)


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


def _read_page(scope: Scope, table: type[AppState | UserState], owner_id: int | None, after: str) -> KeyPage:
    if owner_id is None:
        return KeyPage(scope, None, [])
    rows = table.objects.filter(owner_id=owner_id, key_id__gt=after).order_by("key_id")
    rows_read = list(rows.values_list("key_id", "position")[: PAGE_SIZE + 1])
    positions = dict(rows_read[:PAGE_SIZE])
    changes = StateChange.objects.filter(
        scope=scope, owner_id=owner_id, key_id__in=positions, position__in=set(positions.values())
    )
    writers = {
        change.key_id: change
        for change in changes.annotate(writes=history.write_count())
        .select_related("session")
        .defer("private")
        if change.position == positions[change.key_id]
    }
    more = rows_read[PAGE_SIZE - 1][0] if len(rows_read) > PAGE_SIZE else ""
    removals = () if after else _removed_keys(scope, table, owner_id)
    return KeyPage(
        scope, owner_id, [writers[key_id] for key_id in positions if key_id in writers], more, removals
    )


def _removed_keys(scope: Scope, table: type[AppState | UserState], owner_id: int) -> tuple[StateChange, ...]:
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
