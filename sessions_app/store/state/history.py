"""State at any event, and the writer of each key. Reads the ledger only.

The state at an event takes one index seek a key, whatever the session's length. Keys are found by a skip scan of the
ledger's index, so removed keys and deleted sessions are covered.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Func, IntegerField, OuterRef, QuerySet, Subquery

from sessions_app.store import scopes
from sessions_app.store.database.combined_query import Rows, read_together
from sessions_app.store.ids import is_storable
from sessions_app.store.models import AgentSession, AppScope, Event, Scope, StateChange, UserScope

CHUNK = 500
"""Rows read by primary key in one query."""


def _every_key(first: str = "") -> str:
    return f"""
WITH RECURSIVE keys(key_id) AS (
    SELECT (SELECT key_id FROM sessions_app_statechange WHERE scope = %(scope)s AND owner_id = %(owner)s {first}
            ORDER BY key_id LIMIT 1)
    UNION ALL
    SELECT (SELECT key_id FROM sessions_app_statechange
            WHERE scope = %(scope)s AND owner_id = %(owner)s AND key_id > keys.key_id ORDER BY key_id LIMIT 1)
    FROM keys WHERE keys.key_id IS NOT NULL
)
"""  # noqa: S608 - pieces of our own


EVERY_KEY = _every_key()
"""All keys that an owner ever had, found one behind the other; the last row is null.

`min(key_id)` would read all rows on a PostgreSQL without recent statistics.
"""

KEYS_FROM = _every_key("AND key_id >= %(begin)s")
"""All keys from a key on."""


def last_write_sql(until: str) -> str:
    """Return SQL for the ledger row that last wrote a key of `keys` up to a position, a named parameter."""
    return f"""
    (SELECT id FROM sessions_app_statechange
     WHERE scope = %(scope)s AND owner_id = %(owner)s AND key_id = keys.key_id AND position <= %({until})s
     ORDER BY position DESC, id DESC LIMIT 1)
"""  # noqa: S608 - pieces of our own


_JOIN = {
    "sqlite": "LEFT JOIN sessions_app_statechange AS {name} ON {name}.id = {write}",
    "postgresql": "LEFT JOIN LATERAL (SELECT * FROM sessions_app_statechange WHERE id = {write}) AS {name} ON true",
}
"""A plain join would make PostgreSQL read all of the ledger."""


def join_last_write_sql(name: str, until: str) -> str:
    """Return SQL that joins, as `name`, the last write of a key of `keys` up to a position, a named parameter."""
    return _JOIN[connection.vendor].format(name=name, write=last_write_sql(until))


WRITES_AT = f"{EVERY_KEY} SELECT {last_write_sql('position')} FROM keys WHERE keys.key_id IS NOT NULL"  # noqa: S608 - pieces of our own
"""The ledger row that last wrote each key of an owner up to a position; null for later keys."""

WRITES_COUNTED = 200
"""Maximum number of writes counted for a key."""


@dataclass(frozen=True, slots=True)
class Owners:
    """The owners of the scopes that a session reads, each with a position in its history."""

    ids: dict[Scope, int]
    positions: dict[Scope, int]

    def at(self, event: Event) -> Owners:
        """Return the same owners at the positions that an event saw."""
        positions = {Scope.SESSION: event.seq, Scope.USER: event.user_version, Scope.APP: event.app_version}
        return Owners(self.ids, {scope: positions[scope] for scope in self.ids})


@dataclass(frozen=True, slots=True)
class StateAt:
    """The state of each scope at a point in time: the ledger row that last wrote each key, without removed keys."""

    session: list[StateChange]
    user: list[StateChange]
    app: list[StateChange]

    def scopes(self) -> Iterable[tuple[Scope, list[StateChange]]]:
        """Yield each scope with its rows, in the order pages show them."""
        return ((Scope.SESSION, self.session), (Scope.USER, self.user), (Scope.APP, self.app))

    def values(self, scope: Scope) -> dict[str, Any]:
        """Return one scope's state, without prefixes."""
        rows = dict(self.scopes())[scope]
        return {row.key: json.loads(row.value or "null") for row in rows}

    def merge_scopes(self) -> dict[str, Any]:
        """Return the merged state as an agent reads it."""
        return scopes.merge(self.values(Scope.SESSION), self.values(Scope.USER), self.values(Scope.APP))


def state_at(session: AgentSession, event: Event | None = None) -> StateAt:
    """Return the state at an event in every scope; without an event, the current state.

    At an event, session keys count up to its `seq`, and user and app keys up to the versions its commit saw.
    """
    owners = owners_at(session, event)
    return StateAt(*(_rows_at(owners, scope) for scope in (Scope.SESSION, Scope.USER, Scope.APP)))


def owners_at(session: AgentSession, event: Event | None = None) -> Owners:
    """Return the owners of a session's scopes and the positions that an event saw, or the current ones. One query."""
    users, apps = read_together(*shared_owner_rows(session))
    now = row_owners(session, users, apps)
    return now.at(event) if event else now


def shared_owner_rows(session: AgentSession) -> tuple[QuerySet[Any, Any], QuerySet[Any, Any]]:
    """Return the reads of the owners of a session's user and app scope: primary key and position of each."""
    of_app = {"realm": session.realm, "app_name": session.app_name}
    users = UserScope.objects.filter(**of_app, user_id=session.user_id).values_list("pk", "version")
    return users, AppScope.objects.filter(**of_app).values_list("pk", "version")


def row_owners(session: AgentSession, users: Rows, apps: Rows) -> Owners:
    """Return the owners of a session's scopes at their current positions, from the rows of `shared_owner_rows`."""
    ids, positions = {Scope.SESSION: session.pk}, {Scope.SESSION: session.last_seq}
    for scope, rows in ((Scope.USER, users), (Scope.APP, apps)):
        for pk, version in rows:
            ids[scope], positions[scope] = pk, version
    return Owners(ids, positions)


def owner_state(app_name: str, user_id: str | None, realm: str = "") -> tuple[int, list[StateChange]] | None:
    """Return the version and last writes of an app's keys, or of a user's; None if nothing was ever written."""
    owner_filter = {"realm": realm, "app_name": app_name}
    owner: AppScope | UserScope | None
    if not is_storable(app_name, user_id or ""):
        return None
    if user_id is None:
        scope, owner = Scope.APP, AppScope.objects.filter(**owner_filter).first()
    else:
        scope, owner = Scope.USER, UserScope.objects.filter(**owner_filter, user_id=user_id).first()
    if owner is None:
        return None
    return owner.version, _rows_at(Owners({scope: owner.pk}, {scope: owner.version}), scope)


def _rows_at(owners: Owners, scope: Scope) -> list[StateChange]:
    if scope not in owners.ids:
        return []
    newest = newest_writes(scope, owners.ids[scope], owners.positions[scope])
    return sorted(_rows_with_value(newest, StateChange.objects.defer("private")), key=lambda row: row.key)


def newest_writes(scope: Scope, owner_id: int, position: int) -> list[int]:
    """Return the primary keys of the rows that last wrote each key up to a position, including removals."""
    with connection.cursor() as cursor:
        cursor.execute(WRITES_AT, {"scope": str(scope), "owner": owner_id, "position": position})
        return [row[0] for row in cursor.fetchall() if row[0] is not None]


def stored_writes(scope: Scope, owner_id: int, position: int) -> Iterator[StateChange]:
    """Return the rows that last wrote each key up to a position, without removals but with credentials."""
    return _rows_with_value(newest_writes(scope, owner_id, position), StateChange.objects.all())


def _rows_with_value(pks: list[int], rows: QuerySet[StateChange]) -> Iterator[StateChange]:
    """Yield these rows without removals, in chunks: SQLite limits the parameters of a statement."""
    for start in range(0, len(pks), CHUNK):
        yield from rows.filter(pk__in=pks[start : start + CHUNK], removed=False)


def read_key_writes(scope: Scope, owner_id: int, key: str) -> QuerySet[StateChange]:
    """Return all writes of a key, newest first; for user and app keys those of all sessions."""
    return (
        StateChange.objects.filter(scope=scope, owner_id=owner_id, key_id=scopes.key_id(key))
        .defer("private")
        .order_by("-position", "-id")
    )


def earlier_writes() -> QuerySet[StateChange]:
    """Return a subquery of the earlier writes of a ledger row's key, newest first."""
    same_key = {name: OuterRef(name) for name in ("scope", "owner_id", "key_id")}
    return StateChange.objects.filter(**same_key, position__lt=OuterRef("position")).order_by(
        "-position", "-id"
    )


def write_count() -> Func:
    """Return the number of writes of a ledger row's key up to it, at most `WRITES_COUNTED`."""
    same_key = {name: OuterRef(name) for name in ("scope", "owner_id", "key_id")}
    writes = StateChange.objects.filter(**same_key, position__lte=OuterRef("position")).order_by()
    return Func(
        Subquery(writes.values("position")[:WRITES_COUNTED]),
        template="(SELECT count(*) FROM %(expressions)s AS counted)",
        output_field=IntegerField(),
    )


def change_at(session: AgentSession, event: Event | None, scope: Scope, key: str) -> StateChange | None:
    """Return the last write of a key up to an event, or the latest, possibly a removal; None: never written.

    One seek, whatever the state's size.
    """
    owners = owners_at(session, event)
    if scope not in owners.ids:
        return None
    writes = read_key_writes(scope, owners.ids[scope], key)
    return writes.filter(position__lte=owners.positions[scope]).first()


def state_at_start(session: AgentSession) -> StateAt:
    """Return the state before a session's first event, in every scope; the current state if it has no events."""
    owners = owners_at_start(session)
    return StateAt(*(_rows_at(owners, scope) for scope in (Scope.SESSION, Scope.USER, Scope.APP)))


def owners_at_start(session: AgentSession) -> Owners:
    """Return the owners of a session's scopes at the positions before its first event; now if it has none."""
    first = Event.objects.filter(session=session, seq=1).defer("data", "private", "summary").first()
    if first is not None:
        return owners_before(session, first)
    owners = owners_at(session)
    return Owners(owners.ids, {**owners.positions, Scope.SESSION: 0})


def owners_before(session: AgentSession, event: Event) -> Owners:
    """Return the owners of a session's scopes at the positions before an event."""
    owners = owners_at(session, event)
    positions = {**owners.positions, Scope.SESSION: event.seq - 1}
    shared_writes = StateChange.objects.filter(session=session, seq=event.seq).exclude(scope=Scope.SESSION)
    for scope in shared_writes.order_by().values_list("scope", flat=True).distinct():
        positions[Scope(scope)] -= 1
    return Owners(owners.ids, positions)


_NEWEST_WRITES = """
SELECT * FROM (
    SELECT scope, key_id, substr(value, 1, %s) AS text, cause, seq, invocation_id, session_id, from_session,
        from_user, removed, position, id
    FROM sessions_app_statechange WHERE scope = %s AND owner_id = %s AND key_id = %s
    ORDER BY position DESC, id DESC LIMIT %s
) AS recent
"""


def read_newest_writes(keys: Sequence[tuple[str, int, str]], limit: int, characters: int) -> list[Any]:
    """Return the newest writes of keys, newest first: one seek a key.

    Args:
        keys: scope, owner and key id of each, at most 250.
        limit: writes of one key.
        characters: of a value's text that are read.

    Returns:
        Rows of scope, key id, start of the value, cause, seq, invocation id, session, session and user that it came
        from, and whether the write removed the key.
    """
    params = [param for key in keys for param in (characters, *key, limit)]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join([_NEWEST_WRITES] * len(keys)), params)
        rows = sorted(cursor.fetchall(), key=lambda row: row[-2:], reverse=True)
    return [row[:-2] for row in rows]
