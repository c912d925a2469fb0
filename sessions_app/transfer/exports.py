"""Exports of sessions: DevUI's lossless JSON Lines, and an SQLite store that `adk web` opens.

Credentials (the private columns) are left out unless the caller asks for them.
"""

from __future__ import annotations

import io
import json
import os
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TextIO

from django.db.models import QuerySet

from sessions_app.store import scopes
from sessions_app.store.errors import BadInput, NotFound
from sessions_app.store.models import (
    NOT_WITHDRAWN,
    AgentSession,
    AppScope,
    AppState,
    Event,
    EventJudgement,
    Scope,
    SessionState,
    StateChange,
    UserScope,
    UserState,
)
from sessions_app.transfer.readers.event_schema import snake_case
from sessions_app.transfer.readers.formats.devui_export import EXPORT_KIND, EXPORT_VERSION
from sessions_app.transfer.readers.records import StoredJudgement

CHUNK = 500
CONTENT_TYPE = "application/jsonl"


@dataclass(frozen=True, slots=True)
class ExportFilter:
    """Filter of sessions to export; empty fields match any. Only sessions of the empty realm are exported.

    Attributes:
        pks: primary keys of sessions.
    """

    app_name: str = ""
    user_id: str = ""
    session_id: str = ""
    pks: tuple[int, ...] = ()

    def sessions(self) -> QuerySet[AgentSession]:
        """Return the sessions, in a stable order."""
        names = {"app_name": self.app_name, "user_id": self.user_id, "session_id": self.session_id}
        filters: dict[str, Any] = {name: value for name, value in names.items() if value}
        if self.pks:
            filters["pk__in"] = self.pks
        return AgentSession.objects.filter(realm="", **filters).order_by("app_name", "user_id", "session_id")


@dataclass(frozen=True, slots=True)
class ExportCounts:
    """Numbers of exported sessions and events."""

    sessions: int
    events: int


def export_json(export_filter: ExportFilter, path: Path, *, credentials: bool = False) -> ExportCounts:
    """Write sessions as JSON Lines: a header, then one record per line, events in order of time.

    Raises:
        NotFound: no session matches.
        BadInput: the file exists, or cannot be written.
    """
    with _create_file(export_filter, path) as target, target.open("w", encoding="utf-8") as file:
        return _write_json(export_filter, file, credentials=credentials)


def export_adk_sqlite(export_filter: ExportFilter, path: Path, *, credentials: bool = False) -> ExportCounts:
    """Write sessions as a store of ADK's `SqliteSessionService`, which `adk web` opens as `.adk/session.db`.

    That service sorts events by time, so an event with an older timestamp than its predecessor moves.

    Raises:
        NotFound: no session matches.
        BadInput: the file exists, or cannot be written.
    """
    with _create_file(export_filter, path) as target, closing(sqlite3.connect(target)) as connection:
        connection.executescript(_ADK_TABLES)
        counts = _write_sqlite(export_filter, connection, credentials)
        connection.commit()
        return counts


def require_sessions(export_filter: ExportFilter) -> None:
    """Check that at least one session matches.

    Raises:
        NotFound: no session matches.
    """
    if not export_filter.sessions().exists():
        raise NotFound(
            "None of these sessions can be exported.",
            hint="Deleted sessions cannot be exported; sessions of eval attempts are exported with their run, and"
            " nested sessions as HTML files.",
        )


def open_export(export_filter: ExportFilter) -> IO[bytes]:
    """Return an open, unnamed temporary file with what `export_json` writes.

    Raises:
        NotFound: no session matches.
    """
    require_sessions(export_filter)
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the reader closes it
    text = io.TextIOWrapper(file, "utf-8")
    _write_json(export_filter, text)
    text.detach()
    file.seek(0)
    return file


@contextmanager
def _create_file(export_filter: ExportFilter, path: Path) -> Iterator[Path]:
    """Yield a temporary file that is renamed to `path` on success."""
    if not export_filter.sessions().exists():
        raise NotFound("No session matches the filters.", hint="Loosen the filters.")
    if path.exists():
        raise BadInput(f"{str(path)!r} exists already.", hint="Name a new file, or remove this one.")
    try:
        handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}-")
    except OSError as error:
        raise BadInput(
            f"{str(path)!r} cannot be written: {error.strerror}.", hint="Name another place."
        ) from error
    os.close(handle)
    try:
        yield Path(name)
        Path(name).rename(path)
    finally:
        Path(name).unlink(missing_ok=True)


class _ExportReader:
    def __init__(self, export_filter: ExportFilter, credentials: bool) -> None:
        self._filter = export_filter
        self._credentials = credentials

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield a record for each app, user, session and event; events in the order they were appended."""
        sessions = self._filter.sessions()
        apps = AppScope.objects.filter(realm="", app_name__in=sessions.values("app_name"))
        for app in apps.order_by("app_name"):
            rows = AppState.objects.filter(owner=app)
            yield {"kind": "app", "app": app.app_name, **self._shared_state(Scope.APP, app.pk, rows)}
        users = UserScope.objects.filter(realm="", app_name__in=sessions.values("app_name"))
        if self._filter.user_id or self._filter.session_id or self._filter.pks:
            users = users.filter(user_id__in=sessions.values("user_id"))
        for user in users.order_by("app_name", "user_id"):
            state = self._shared_state(Scope.USER, user.pk, UserState.objects.filter(owner=user))
            yield {"kind": "user", "app": user.app_name, "user": user.user_id, **state}
        for session in sessions.iterator(CHUNK):
            yield {
                "kind": "session",
                **_session_fields(session),
                "created_at": session.created_at,
                "updated_at": session.updated_at,
                "title": session.title,
                "tags": list(session.tags.order_by("name").values_list("name", flat=True)),
                "state": self._read_state(SessionState.objects.filter(owner=session)),
                "seeds": self._read_seeds(Scope.SESSION, session.pk),
            }
        events = Event.objects.filter(session__in=sessions).select_related("session").order_by("pk")
        removed, judgements = _removed_keys(sessions), _read_judgements(sessions)
        for event in events.iterator(CHUNK):
            event_key = (event.session_id, event.seq)
            yield {
                "kind": "event",
                **_session_fields(event.session),
                "event": self._read_value(event.data, event.private),
                "removed": removed.get(event_key, []),
                **({"judgement": judgements[event_key]} if event_key in judgements else {}),
            }

    def _read_value(self, public: str, private: str | None) -> Any:
        return json.loads((private if self._credentials else None) or public)

    def _read_state(self, rows: QuerySet[Any]) -> dict[str, Any]:
        columns = rows.order_by("key").values_list("key", "value", "private")
        return {key: self._read_value(value, private) for key, value, private in columns}

    def _read_seeds(self, scope: Scope, owner_id: int) -> dict[str, Any]:
        """Return the first value of each key whose first write was no event."""
        ledger = StateChange.objects.filter(scope=scope, owner_id=owner_id).order_by("position", "id")
        first: dict[str, StateChange] = {}
        for row in ledger.iterator(CHUNK):
            first.setdefault(row.key, row)
        return {
            key: self._read_value(row.value, row.private)
            for key, row in sorted(first.items())
            if row.seq == 0 and row.value is not None
        }

    def _shared_state(self, scope: Scope, owner_id: int, rows: QuerySet[Any]) -> dict[str, Any]:
        ledger = StateChange.objects.filter(scope=scope, owner_id=owner_id).order_by("-timestamp")
        return {
            "updated_at": ledger.values_list("timestamp", flat=True).first() or 0.0,
            "state": self._read_state(rows),
            "seeds": self._read_seeds(scope, owner_id),
        }


def _removed_keys(sessions: QuerySet[AgentSession]) -> dict[tuple[int, int], list[str]]:
    """Return the keys, with prefixes, that events removed, by the session's primary key and the event's seq."""
    keys: dict[tuple[int, int], list[str]] = {}
    rows = StateChange.objects.filter(session__in=sessions, removed=True).order_by("pk")
    for session_pk, seq, scope, key in rows.values_list("session_id", "seq", "scope", "key").iterator(CHUNK):
        keys.setdefault((session_pk, seq), []).append(scopes.PREFIX[Scope(scope)] + key)
    return keys


def _read_judgements(sessions: QuerySet[AgentSession]) -> dict[tuple[int, int], dict[str, Any]]:
    """Return the judgements of events, by the session's primary key and the event's seq."""
    rows = EventJudgement.objects.filter(NOT_WITHDRAWN, session__in=sessions)
    return {
        (row.session_id, row.seq): {name: getattr(row, name) for name in StoredJudgement._fields}
        for row in rows.iterator(CHUNK)
    }


def _session_fields(session: AgentSession) -> dict[str, str]:
    return {"app": session.app_name, "user": session.user_id, "session": session.session_id}


def _write_json(export_filter: ExportFilter, file: TextIO, *, credentials: bool = False) -> ExportCounts:
    kinds: Counter[str] = Counter()
    file.write(scopes.dumps({"kind": EXPORT_KIND, "version": EXPORT_VERSION}) + "\n")
    for record in _ExportReader(export_filter, credentials).records():
        kinds[record["kind"]] += 1
        file.write(scopes.dumps(record) + "\n")
    return ExportCounts(kinds["session"], kinds["event"])


_ADK_TABLES = """
CREATE TABLE app_states (app_name TEXT PRIMARY KEY, state TEXT NOT NULL, update_time REAL NOT NULL);
CREATE TABLE user_states (app_name TEXT NOT NULL, user_id TEXT NOT NULL, state TEXT NOT NULL,
    update_time REAL NOT NULL, PRIMARY KEY (app_name, user_id));
CREATE TABLE sessions (app_name TEXT NOT NULL, user_id TEXT NOT NULL, id TEXT NOT NULL, state TEXT NOT NULL,
    create_time REAL NOT NULL, update_time REAL NOT NULL, PRIMARY KEY (app_name, user_id, id));
CREATE TABLE events (id TEXT NOT NULL, app_name TEXT NOT NULL, user_id TEXT NOT NULL, session_id TEXT NOT NULL,
    invocation_id TEXT NOT NULL, timestamp REAL NOT NULL, event_data TEXT NOT NULL,
    PRIMARY KEY (app_name, user_id, session_id, id),
    FOREIGN KEY (app_name, user_id, session_id) REFERENCES sessions(app_name, user_id, id) ON DELETE CASCADE);
"""
"""The tables of ADK's `sqlite_session_service.py`."""

_ADK_INSERTS = {
    "app": "INSERT INTO app_states VALUES (:app, :state, :updated_at)",
    "user": "INSERT INTO user_states VALUES (:app, :user, :state, :updated_at)",
    "session": "INSERT INTO sessions VALUES (:app, :user, :session, :state, :created_at, :updated_at)",
    "event": (
        "INSERT INTO events VALUES (:id, :app, :user, :session, :invocationId, :timestamp, :event_data)"
    ),
}
"""Statements for the records of an export, by kind."""


def _write_sqlite(
    export_filter: ExportFilter, connection: sqlite3.Connection, credentials: bool
) -> ExportCounts:
    kinds: Counter[str] = Counter()
    for record in _ExportReader(export_filter, credentials).records():
        kinds[record["kind"]] += 1
        if record["kind"] == "event":
            event = record["event"]
            data = scopes.dumps(snake_case("Event", event))
            values = {"invocationId": "", **event, **record, "event_data": data}
        else:
            values = {**record, "state": scopes.dumps(record["state"])}
        connection.execute(_ADK_INSERTS[record["kind"]], values)
    return ExportCounts(kinds["session"], kinds["event"])
