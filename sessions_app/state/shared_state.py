"""The state that sessions share, as it is now: the keys of an app and of a user, each with who last wrote it."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection
from django.db.models import Count

from sessions_app.lookup import list_apps_with_sessions
from sessions_app.models import AgentSession, AppScope, AppState, Scope, StateChange, UserScope, UserState
from sessions_app.state import history
from sessions_app.state.diff.points import FEW_KEYS

PAGE_SIZE = 100
MOST_USERS, MOST_REMOVED = 200, 20
"""Users of an app, and removed keys, that are named."""

_REMOVED_KEYS = f"""
{history.EVERY_KEY}
SELECT {history.last_write_sql("anywhere")} FROM keys WHERE keys.key_id IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM {{table}} AS stored WHERE stored.owner_id = %(owner)s AND stored.key_id = keys.key_id
) LIMIT %(most)s
"""  # noqa: S608 - pieces of our own
"""The last writes of keys that an owner has no more."""

_ANYWHERE = 2**62
"""Above every position."""


@dataclass(frozen=True, slots=True)
class KeyPage:
    """A page of a scope's keys, sorted by key.

    Attributes:
        owner_id: primary key of the `AppScope` or `UserScope`, or None when nothing was ever written.
        rows: for each key the ledger row that last wrote it, with `writes`: how often it was written so far.
        more: where the next page starts; empty on the last.
        gone: on the first page, for keys that were removed, the row that did: of very many keys none is told.
    """

    scope: Scope
    owner_id: int | None
    rows: list[StateChange]
    more: str = ""
    gone: tuple[StateChange, ...] = ()


def app_keys(app_name: str, after: str = "") -> KeyPage:
    """Return the keys that everyone in an app shares."""
    owner = AppScope.objects.filter(realm="", app_name=app_name).first()
    return _read_page(Scope.APP, AppState, owner.pk if owner else None, after)


def user_keys(app_name: str, user_id: str, after: str = "") -> KeyPage:
    """Return the keys that all sessions of a user in an app share."""
    owner = UserScope.objects.filter(realm="", app_name=app_name, user_id=user_id).first()
    return _read_page(Scope.USER, UserState, owner.pk if owner else None, after)


@dataclass(frozen=True, slots=True)
class AppStateCounts:
    """An app that has shared state: how many keys of its own, how many users with keys of theirs."""

    app_name: str
    key_count: int
    user_count: int


def apps_with_state() -> list[AppStateCounts]:
    """Return the apps in which anything was ever shared, sorted."""
    keys = AppScope.objects.filter(realm="").values_list("app_name").annotate(Count("state_rows"))
    users = UserScope.objects.filter(realm="").values_list("app_name").annotate(Count("pk"))
    key_counts, user_counts = dict(keys), dict(users)
    names = sorted(key_counts.keys() | user_counts.keys())
    return [AppStateCounts(name, key_counts.get(name, 0), user_counts.get(name, 0)) for name in names]


def users_with_state(app_name: str) -> tuple[list[UserScope], bool]:
    """Return users of an app with state of their own, sorted, each with `key_count`, and whether there are more."""
    owners = UserScope.objects.filter(realm="", app_name=app_name).annotate(key_count=Count("state_rows"))
    found: list[UserScope] = list(owners.order_by("user_id")[: MOST_USERS + 1])
    return found[:MOST_USERS], len(found) > MOST_USERS


def apps_of(user_id: str) -> list[str]:
    """Return the apps in which a user has sessions or state, sorted. Three queries."""
    names = {
        *list_apps_with_sessions(),
        *AppScope.objects.filter(realm="").values_list("app_name", flat=True),
    }
    whose = {"realm": "", "app_name__in": names, "user_id": user_id}
    owners = UserScope.objects.filter(**whose).values_list("app_name")
    talkers = AgentSession.objects.filter(**whose).order_by().values_list("app_name")
    return sorted(row[0] for row in owners.union(talkers))


def _read_page(scope: Scope, table: type[AppState | UserState], owner_id: int | None, after: str) -> KeyPage:
    if owner_id is None:
        return KeyPage(scope, None, [])
    rows = table.objects.filter(owner_id=owner_id, key_id__gt=after).order_by("key_id")
    found = list(rows.values_list("key_id", "position")[: PAGE_SIZE + 1])
    shown = dict(found[:PAGE_SIZE])
    changes = StateChange.objects.filter(
        scope=scope, owner_id=owner_id, key_id__in=shown, position__in=set(shown.values())
    )
    writers = {
        change.key_id: change
        for change in changes.annotate(writes=history.count_of_writes())
        .select_related("session")
        .defer("private")
        if change.position == shown[change.key_id]
    }
    more = found[PAGE_SIZE - 1][0] if len(found) > PAGE_SIZE else ""
    gone = () if after else _removed_keys(scope, table, owner_id)
    return KeyPage(scope, owner_id, [writers[key_id] for key_id in shown if key_id in writers], more, gone)


def _removed_keys(scope: Scope, table: type[AppState | UserState], owner_id: int) -> tuple[StateChange, ...]:
    """Return the rows that removed keys of an owner, by key; of many keys, which would all be gone through, none."""
    if table.objects.filter(owner_id=owner_id)[: FEW_KEYS + 1].count() > FEW_KEYS:
        return ()
    given: dict[str, str | int] = {
        "scope": str(scope),
        "owner": owner_id,
        "anywhere": _ANYWHERE,
        "most": MOST_REMOVED,
    }
    with connection.cursor() as cursor:
        cursor.execute(_REMOVED_KEYS.format(table=table._meta.db_table), given)
        pks = [pk for (pk,) in cursor.fetchall()]
    return tuple(StateChange.objects.filter(pk__in=pks).order_by("key_id").defer("private", "value"))
