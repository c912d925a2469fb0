"""Loads stored sessions as ADK's `Session`. Functions are synchronous units of work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import QuerySet
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from pydantic_core import from_json

from sessions_app.adk import _adk, event_mapping
from sessions_app.store import models as store
from sessions_app.store import scopes as state
from sessions_app.store.database.gc_tuning import pause_collector
from sessions_app.store.ids import is_storable
from sessions_app.store.session_key import SessionKey

READ_ATTEMPTS = 5

Row = tuple[int, str, str | None, str, str]
"""An event's seq and what `mapping.from_row` makes the event of."""

_EVENT = ("seq", "data", "private", "event_id", "invocation_id")


class LoadedSession(NamedTuple):
    """The columns of a session that loading it needs, read with plain SQL twice in each turn."""

    pk: int
    revision: int
    last_seq: int
    updated_at: float
    realm: str
    app_name: str
    user_id: str
    session_id: str


@dataclass(slots=True)
class EventPrefix:
    """The first events of a stored session as ADK events that no caller has yet.

    Attributes:
        session_pk: primary key of the session; a session that is deleted and recreated has another one.
        rewrites: number of changes to the session without an appended event (`revision - last_seq`). Code that changes
            a stored event raises the session's `revision`, and thereby this number.
        upto: seq of the last of the events.
        events: the events.
    """

    session_pk: int
    rewrites: int
    upto: int = 0
    events: list[Event] = field(default_factory=list)

    @classmethod
    def of(cls, row: LoadedSession) -> EventPrefix:
        """Return the empty prefix of a session."""
        return cls(row.pk, row.revision - row.last_seq)

    def begins(self, row: LoadedSession) -> bool:
        """Return whether the session still begins with these events."""
        return (
            self.session_pk == row.pk
            and self.rewrites == row.revision - row.last_seq
            and self.upto <= row.last_seq
        )

    def extend(self, rows: Iterable[Row]) -> None:
        """Add the events of rows that follow."""
        for seq, data, private, event_id, invocation_id in rows:
            self.events.append(event_mapping.from_row(data, private, event_id, invocation_id))
            self.upto = seq

    def following(self, upto: int | None = None) -> QuerySet[Any, Row]:
        """Return the rows of the following events, up to a seq or to the end."""
        rows = store.Event.objects.filter(session_id=self.session_pk, seq__gt=self.upto)
        if upto is not None:
            rows = rows.filter(seq__lte=upto)
        return rows.order_by("seq").values_list(*_EVENT)


def load_session(
    key: SessionKey, config: GetSessionConfig | None = None, prefix: EventPrefix | None = None
) -> tuple[Session, EventPrefix] | None:
    """Return a consistent session and its events; None if it does not exist.

    If a write occurs between the reads, the appended events are read, too.

    Args:
        key: the session.
        config: selects its events; default: all.
        prefix: its first events, if prefetched. They become part of the returned session.
    """
    row, attempts = _find_row(key), 0
    while row is not None:
        attempts += 1
        if prefix is None or not prefix.begins(row) or is_partial(config):
            prefix = EventPrefix.of(row)
        with pause_collector():
            prefix.extend(_select_events(row, prefix, config))
        session = to_session(row, prefix.events, _merged_state(row))
        read_row, row = row, _find_row(key)
        if row is not None and (
            (row.pk, row.revision) == (read_row.pk, read_row.revision) or attempts == READ_ATTEMPTS
        ):
            return session, prefix
    return None


def list_sessions(realm: str, app_name: str, user_id: str | None) -> list[Session]:
    """Return an app's sessions, one user's or all (None), without their events, oldest update first.

    Runs three queries for any number of sessions. The database joins the keys of each session to one unordered text:
    a row per key, or sorting, would cost more than everything else.
    """
    if not is_storable(app_name, user_id or ""):
        return []
    owner_filter, values = ("", ()) if user_id is None else (" AND o.user_id = %s", (user_id,))
    with connection.cursor() as cursor:
        cursor.execute(_APP_STATE, (realm, app_name))
        of_app = _parse_rows(cursor.fetchall())
        cursor.execute(_USERS_STATE.format(whose=owner_filter), (realm, app_name, *values))
        of_users: defaultdict[str, list[StoredKey]] = defaultdict(list)
        for user, key, value, private in cursor.fetchall():
            of_users[user].append((key, value, private))
        of_all = state.merge({}, {}, of_app)
        shared = {user: state.merge({}, _parse_rows(rows), of_app) for user, rows in of_users.items()}
        make = _adk.session_factory(app_name)
        sessions = []
        cursor.execute(
            _LIST_SESSIONS[connection.vendor].format(whose=owner_filter), (realm, app_name, *values)
        )
        with pause_collector():
            for session_id, user, keys, updated_at, revision in cursor:
                session_state: dict[str, Any] = from_json(f"{{{keys}}}") if keys else {}
                if shared_rows := shared.get(user, of_all):
                    session_state |= _copy_shared(shared_rows)
                sessions.append(make(session_id, user, session_state, updated_at, revision))
    # Python sorts as ADK does; a database sorts text by its own collation.
    return sorted(sessions, key=attrgetter("last_update_time", "user_id", "id"))


_APP_STATE = """
    SELECT k.key, k.value, k.private FROM sessions_app_appstate k
    JOIN sessions_app_appscope o ON o.id = k.owner_id WHERE o.realm = %s AND o.app_name = %s ORDER BY k.id
"""
_USERS_STATE = """
    SELECT o.user_id, k.key, k.value, k.private FROM sessions_app_userstate k
    JOIN sessions_app_userscope o ON o.id = k.owner_id WHERE o.realm = %s AND o.app_name = %s{whose} ORDER BY k.id
"""
_LIST_SESSIONS_TEMPLATE = """
    SELECT o.session_id, o.user_id,
    (SELECT {joined} FROM sessions_app_sessionstate k WHERE k.owner_id = o.id), o.updated_at, o.revision
    FROM sessions_app_agentsession o WHERE o.realm = %s AND o.app_name = %s{{whose}}
"""
_LIST_SESSIONS = {
    "sqlite": _LIST_SESSIONS_TEMPLATE.format(
        joined="group_concat(json_quote(k.key) || ':' || coalesce(k.private, k.value))"
    ),
    "postgresql": _LIST_SESSIONS_TEMPLATE.format(
        joined="string_agg(to_json(k.key)::text || ':' || coalesce(k.private, k.value), ',')"
    ),
}
"""Statements that return sessions with their own state as the inside of a JSON object."""


def _copy_shared(shared: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of shared state, so that a session cannot change the values of others."""
    return {
        name: deepcopy(value) if isinstance(value, dict | list) else value for name, value in shared.items()
    }


def is_partial(config: GetSessionConfig | None) -> bool:
    """Return whether a config excludes events. As in ADK, a time of 0 is no filter."""
    return config is not None and bool(config.after_timestamp or config.num_recent_events is not None)


def to_session(row: LoadedSession, events: list[Event], merged: dict[str, Any]) -> Session:
    """Return the ADK session of a row, marked with the row's revision, with a new list of events."""
    session = Session(
        id=row.session_id,
        app_name=row.app_name,
        user_id=row.user_id,
        state=merged,
        events=events,
        last_update_time=row.updated_at,
    )
    _adk.mark_revision(session, row.revision)
    return session


def new_session(created: store.AgentSession) -> Session:
    """Return the ADK session of a row that was created in this transaction."""
    row = LoadedSession(*(getattr(created, name) for name in LoadedSession._fields))
    return to_session(row, [], _merged_state(row))


def read_state(rows: QuerySet[Any]) -> dict[str, Any]:
    """Return state rows as a dict, in the order the keys were first written."""
    return _parse_rows(rows.order_by("pk").values_list("key", "value", "private"))


def _find_row(key: SessionKey) -> LoadedSession | None:
    if not is_storable(*key):
        return None
    with connection.cursor() as cursor:
        cursor.execute(_FIND_ROW, key)
        columns = cursor.fetchone()
    return None if columns is None else LoadedSession(*columns)


_FIND_ROW = (
    "SELECT id, revision, last_seq, updated_at, realm, app_name, user_id, session_id FROM sessions_app_agentsession"
    " WHERE realm = %s AND app_name = %s AND user_id = %s AND session_id = %s"
)


def _select_events(row: LoadedSession, prefix: EventPrefix, config: GetSessionConfig | None) -> Iterable[Row]:
    if row.last_seq <= prefix.upto:
        return ()
    rows = prefix.following(row.last_seq)
    if config is None:
        return rows
    if config.after_timestamp:
        rows = rows.filter(timestamp__gte=config.after_timestamp)
    if config.num_recent_events is not None:
        return reversed(rows.order_by("-seq")[: config.num_recent_events])
    return rows


_STATE = """
    SELECT 0 AS scope, s.id, s.key, s.value, s.private FROM sessions_app_sessionstate s WHERE s.owner_id = %s
    UNION ALL
    SELECT 1, u.id, u.key, u.value, u.private FROM sessions_app_userstate u
    JOIN sessions_app_userscope o ON o.id = u.owner_id
    WHERE o.realm = %s AND o.app_name = %s AND o.user_id = %s
    UNION ALL
    SELECT 2, a.id, a.key, a.value, a.private FROM sessions_app_appstate a
    JOIN sessions_app_appscope o ON o.id = a.owner_id
    WHERE o.realm = %s AND o.app_name = %s
    ORDER BY 1, 2
"""


def _merged_state(row: LoadedSession) -> dict[str, Any]:
    """Return a session's merged state with a single statement, since every turn begins with it."""
    of_app = (row.realm, row.app_name)
    scopes: tuple[list[StoredKey], ...] = ([], [], [])
    with connection.cursor() as cursor:
        cursor.execute(_STATE, (row.pk, *of_app, row.user_id, *of_app))
        for scope, _, *stored in cursor.fetchall():
            scopes[scope].append((stored[0], stored[1], stored[2]))
    of_session, of_user, of_all = map(_parse_rows, scopes)
    return state.merge(of_session, of_user, of_all)


StoredKey = tuple[str, str, str | None]
"""A state row: its key, value and private value."""


def _parse_rows(rows: Iterable[StoredKey]) -> dict[str, Any]:
    return {key: event_mapping.state_value(value, private) for key, value, private in rows}
