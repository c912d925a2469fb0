"""Time travel and blame: what the state was at any event, and who wrote it. Reads of the ledger only.

A state at an event is one index seek a key, whatever the length of the session: keys are found by skipping along
the ledger's index, so that removed keys and deleted sessions answer too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Func, IntegerField, OuterRef, QuerySet, Subquery

from sessions_app import scopes
from sessions_app.ids import is_storable
from sessions_app.models import AgentSession, AppScope, Event, Scope, StateChange, UserScope

CHUNK = 500
"""Rows read by their keys at a time."""


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
"""The keys of an owner that were ever written, each found behind the one before it; the last row is null.

`min(key_id)` would read them all on a PostgreSQL that has not counted its rows for a while.
"""

KEYS_FROM = _every_key("AND key_id >= %(begin)s")
"""The same from a key on."""


def last_write_sql(until: str) -> str:
    """Return SQL for the ledger row that last wrote a key of `keys`, up to the position that the parameter says."""
    return f"""
    (SELECT id FROM sessions_app_statechange
     WHERE scope = %(scope)s AND owner_id = %(owner)s AND key_id = keys.key_id AND position <= %({until})s
     ORDER BY position DESC, id DESC LIMIT 1)
"""  # noqa: S608 - pieces of our own


WRITES_AT = f"{EVERY_KEY} SELECT {last_write_sql('position')} FROM keys WHERE keys.key_id IS NOT NULL"  # noqa: S608 - pieces of our own
"""The ledger row that last wrote each key of an owner up to a position, null for a key that came later."""

WRITES_COUNTED = 200
"""Writes of a key that are counted; there may be more."""


@dataclass(frozen=True, slots=True)
class Owners:
    """The owners of the three scopes that a session reads, each with the position to look at."""

    ids: dict[Scope, int]
    positions: dict[Scope, int]

    def at(self, event: Event) -> Owners:
        """Return the same owners, each at the position that an event saw."""
        seen = {Scope.SESSION: event.seq, Scope.USER: event.user_version, Scope.APP: event.app_version}
        return Owners(self.ids, {scope: seen[scope] for scope in self.ids})


@dataclass(frozen=True, slots=True)
class StateAt:
    """The state of each scope at a moment: the ledger row that last wrote each key, removed keys left out."""

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

    def merged(self) -> dict[str, Any]:
        """Return what an agent would have read."""
        return scopes.merge(self.values(Scope.SESSION), self.values(Scope.USER), self.values(Scope.APP))


def state_at(session: AgentSession, event: Event | None = None) -> StateAt:
    """Return the state at an event as it was then, in every scope; without an event, the state now.

    At an event, session keys count up to its `seq`, and user and app keys up to the versions its commit saw.
    """
    owners = owners_at(session, event)
    return StateAt(*(_rows_at(owners, scope) for scope in (Scope.SESSION, Scope.USER, Scope.APP)))


def owners_at(session: AgentSession, event: Event | None = None) -> Owners:
    """Return the owners of a session's scopes and the positions that an event (or now) saw."""
    user = UserScope.objects.filter(
        realm=session.realm, app_name=session.app_name, user_id=session.user_id
    ).first()
    app = AppScope.objects.filter(realm=session.realm, app_name=session.app_name).first()
    ids, positions = {Scope.SESSION: session.pk}, {Scope.SESSION: session.last_seq}
    if user:
        ids[Scope.USER], positions[Scope.USER] = user.pk, user.version
    if app:
        ids[Scope.APP], positions[Scope.APP] = app.pk, app.version
    now = Owners(ids, positions)
    return now.at(event) if event else now


def owner_state(app_name: str, user_id: str | None, realm: str = "") -> tuple[int, list[StateChange]] | None:
    """Return (version, last write of each key) of an app, or of a user in it; None when nothing was ever written."""
    whose = {"realm": realm, "app_name": app_name}
    owner: AppScope | UserScope | None
    if not is_storable(app_name, user_id or ""):
        return None
    if user_id is None:
        scope, owner = Scope.APP, AppScope.objects.filter(**whose).first()
    else:
        scope, owner = Scope.USER, UserScope.objects.filter(**whose, user_id=user_id).first()
    if owner is None:
        return None
    return owner.version, _rows_at(Owners({scope: owner.pk}, {scope: owner.version}), scope)


def _rows_at(owners: Owners, scope: Scope) -> list[StateChange]:
    if scope not in owners.ids:
        return []
    newest = newest_writes(scope, owners.ids[scope], owners.positions[scope])
    return sorted(_rows_with_value(newest, StateChange.objects.defer("private")), key=lambda row: row.key)


def newest_writes(scope: Scope, owner_id: int, position: int) -> list[int]:
    """Return the primary keys of the rows that last wrote each key up to a position, removals too."""
    with connection.cursor() as cursor:
        cursor.execute(WRITES_AT, {"scope": str(scope), "owner": owner_id, "position": position})
        return [row[0] for row in cursor.fetchall() if row[0] is not None]


def stored_writes(scope: Scope, owner_id: int, position: int) -> Iterator[StateChange]:
    """Return the rows that last wrote each key up to a position, removed keys left out, credentials with them."""
    return _rows_with_value(newest_writes(scope, owner_id, position), StateChange.objects.all())


def _rows_with_value(pks: list[int], rows: QuerySet[StateChange]) -> Iterator[StateChange]:
    """Yield the rows of these keys, removals left out. A statement that named very many would be refused by SQLite."""
    for start in range(0, len(pks), CHUNK):
        yield from rows.filter(pk__in=pks[start : start + CHUNK], removed=False)


def history_of_key(scope: Scope, owner_id: int, key: str) -> QuerySet[StateChange]:
    """Return every write of a key, newest first; for user and app keys across all sessions."""
    return (
        StateChange.objects.filter(scope=scope, owner_id=owner_id, key_id=scopes.key_id(key))
        .defer("private")
        .order_by("-position", "-id")
    )


def earlier_writes() -> QuerySet[StateChange]:
    """Return the earlier writes of a row's key, newest first: a subquery for a query of the ledger's rows."""
    same_key = {name: OuterRef(name) for name in ("scope", "owner_id", "key_id")}
    return StateChange.objects.filter(**same_key, position__lt=OuterRef("position")).order_by(
        "-position", "-id"
    )


def count_of_writes() -> Func:
    """Return how often a ledger row's key was written up to it, removals too: at most `WRITES_COUNTED`."""
    same_key = {name: OuterRef(name) for name in ("scope", "owner_id", "key_id")}
    writes = StateChange.objects.filter(**same_key, position__lte=OuterRef("position")).order_by()
    return Func(
        Subquery(writes.values("position")[:WRITES_COUNTED]),
        template="(SELECT count(*) FROM %(expressions)s AS counted)",
        output_field=IntegerField(),
    )


def last_change(session: AgentSession, scope: Scope, key: str) -> StateChange | None:
    """Return the last write of a key that a session reads, a removal too; None when it was never written."""
    owner_id = owners_at(session).ids.get(scope)
    return None if owner_id is None else history_of_key(scope, owner_id, key).first()


def change_at(session: AgentSession, event: Event | None, scope: Scope, key: str) -> StateChange | None:
    """Return the last write of a key up to an event (None: up to now). One seek, whatever the state's size."""
    owners = owners_at(session, event)
    if scope not in owners.ids:
        return None
    writes = history_of_key(scope, owners.ids[scope], key)
    return writes.filter(position__lte=owners.positions[scope]).first()


def state_at_start(session: AgentSession) -> StateAt:
    """Return the state that a session's first event found, in every scope; of one without events, the state now."""
    owners = owners_at_start(session)
    return StateAt(*(_rows_at(owners, scope) for scope in (Scope.SESSION, Scope.USER, Scope.APP)))


def owners_at_start(session: AgentSession) -> Owners:
    """Return the owners of a session's scopes and the positions its first event found; now, when it has none."""
    first = Event.objects.filter(session=session, seq=1).defer("data", "private", "summary").first()
    if first is not None:
        return owners_before(session, first)
    owners = owners_at(session)
    return Owners(owners.ids, {**owners.positions, Scope.SESSION: 0})


def owners_before(session: AgentSession, event: Event) -> Owners:
    """Return the owners of a session's scopes and the positions that an event found."""
    owners = owners_at(session, event)
    positions = {**owners.positions, Scope.SESSION: event.seq - 1}
    own = StateChange.objects.filter(session=session, seq=event.seq).exclude(scope=Scope.SESSION)
    for scope in own.order_by().values_list("scope", flat=True).distinct():
        positions[Scope(scope)] -= 1
    return Owners(owners.ids, positions)
