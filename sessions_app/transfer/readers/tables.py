"""Reader of tables in the layout of ADK's SQL services. The formats differ in how an event is stored."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any

from sessions_app.store import scopes, text_input
from sessions_app.store.events.timestamps import is_in_milliseconds, parse_timestamp
from sessions_app.transfer.readers import pickles
from sessions_app.transfer.readers.databases import Database, Row
from sessions_app.transfer.readers.importer import Importer
from sessions_app.transfer.readers.normalization import normalize_event, removed_keys
from sessions_app.transfer.readers.reader_process import ReadingFailed
from sessions_app.transfer.readers.records import (
    Owner,
    SharedState,
    Source,
    SourceFilter,
    StoredEvent,
    StoredSession,
    StoredState,
    UnreadableRow,
)

RAW = "__adk_internal_devui_raw"
"""Private key of `customMetadata` for the bytes of parts that could not be read."""

UNREAD = "devui_unread"
"""Public key of `customMetadata` for the parts that could not be read, with reasons."""

MAX_RAW = 1024 * 1024
"""Longest unreadable blob that is stored with the event."""

SESSION_COLUMNS = frozenset({"app_name", "user_id", "state"})
EVENT_COLUMNS = frozenset({"id", "session_id", "timestamp"})
"""Columns that every layout of ADK has."""

JSON_COLUMNS = (
    "content",
    "grounding_metadata",
    "custom_metadata",
    "usage_metadata",
    "citation_metadata",
    "input_transcription",
    "output_transcription",
)
FLAG_COLUMNS = ("partial", "turn_complete", "interrupted")
PLAIN_COLUMNS = ("author", "branch", "isolation_scope", "error_code", "error_message")


class TableSource(Source):
    """Sessions of a database in ADK's layout, with events in a JSON column."""

    session_id_column = "id"
    created_column = "create_time"
    updated_column = "update_time"

    def __init__(
        self, database: Database, format: str, location: str, source_filter: SourceFilter, zone: tzinfo
    ) -> None:
        """Read from `database`. `zone` applies to times without a time zone."""
        super().__init__(format, location, database.fingerprint)
        self._database = database
        self._filter = source_filter
        self._zone = zone
        self._pickles = pickles.PickleReader()

    def sessions(self) -> Iterator[StoredSession | UnreadableRow]:
        """Yield the sessions."""
        columns = f"{self.created_column} AS created, {self.updated_column} AS updated"
        yield from self._read_rows(
            f"{self._session_columns}, {columns} FROM sessions", "session", self._read_session
        )

    def states(self) -> Iterator[StoredState | UnreadableRow]:
        """Yield the sessions' own state."""
        yield from self._read_rows(
            f"{self._session_columns}, state FROM sessions", "state of", self._read_state
        )

    def shared_states(self) -> Iterator[SharedState | UnreadableRow]:
        """Yield the state of apps and users, if the store has these tables."""
        for table, names in (("app_states", "app_name"), ("user_states", "app_name, user_id")):
            if self._database.columns(table):
                sql = f"SELECT {names}, state, {self.updated_column} AS updated FROM {table}"  # noqa: S608 - no outside text
                by_user = "user_id" in names
                what = "state of user" if by_user else "state of app"
                yield from self._read_rows(sql, what, self._shared_state, by_user=by_user)

    def events(self) -> Iterator[StoredEvent | UnreadableRow]:
        """Yield the events by time, events of equal time in the order they were appended if known."""
        where, values = self._filter_sql()
        order = self._database.append_order
        sql = f"SELECT * FROM events{where} ORDER BY timestamp, {order}"  # noqa: S608 - no outside text
        for row in self._database.rows(sql, values):
            try:
                yield self.read_event(row)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                owner = "/".join(str(row.get(name)) for name in ("app_name", "user_id", "session_id", "id"))
                yield UnreadableRow(f"event {owner}", str(error) or type(error).__name__)

    def close(self) -> None:
        """Close the database."""
        self._database.close()
        self._pickles.close()

    def _read_rows(
        self, sql: str, what: str, read: Callable[[Row], Any], *, by_user: bool = True
    ) -> Iterator[Any]:
        where, values = self._filter_sql(by_user=by_user)
        for row in self._database.rows(sql + where, values):
            try:
                yield read(row)
            except (ValueError, TypeError, RecursionError) as error:
                names = [str(row[name]) for name in ("app_name", "user_id", "id") if name in row]
                yield UnreadableRow(f"{what} {'/'.join(names)}", str(error) or type(error).__name__)

    def _filter_sql(self, *, by_user: bool = True) -> tuple[str, list[str]]:
        columns = {"app_name": self._filter.app_name, "user_id": self._filter.user_id if by_user else None}
        filters = {name: value for name, value in columns.items() if value is not None}
        terms = " AND ".join(f"{name} = %s" for name in filters)
        return (f" WHERE {terms}" if terms else ""), list(filters.values())

    @property
    def _session_columns(self) -> str:
        return f"SELECT app_name, user_id, {self.session_id_column} AS id"

    def _read_session(self, row: Row) -> StoredSession:
        created, updated = parse_timestamp(row["created"]), parse_timestamp(row["updated"])
        return StoredSession(Owner(row["app_name"], row["user_id"], row["id"]), created, updated)

    def _read_state(self, row: Row) -> StoredState:
        scoped = scopes.split_delta(self.decode_state(row["state"]))
        owner = Owner(row["app_name"], row["user_id"], row["id"])
        return StoredState(owner, scoped.session, changes=scoped.changes)

    def _shared_state(self, row: Row) -> SharedState:
        values = self.decode_state(row["state"])
        return SharedState(row["app_name"], row.get("user_id"), values, parse_timestamp(row["updated"]))

    def decode_state(self, value: Any) -> dict[str, Any]:
        """Return the state in a column.

        Raises:
            ValueError: it cannot be read.
        """
        return _decode_object(value)

    def read_event(self, row: Row) -> StoredEvent:
        """Return an event. The row's columns take precedence over its JSON, except for the time (`schemas/v1.py`).

        Raises:
            ValueError, TypeError, KeyError, AttributeError: it cannot be read.
        """
        raw = _decode_object(row["event_data"]) if row["event_data"] is not None else {}
        return self._build_event(row, raw)

    def read_event_with_actions(self, row: Row, raw: Row) -> StoredEvent:
        """Return an event of fields and of actions in a column. Unreadable actions are flagged and stored."""
        blob, unread = row.get("actions"), ""
        try:
            raw["actions"] = read_actions(blob, self._pickles)
        except ReadingFailed as error:
            unread = str(error)
        event = self._build_event(row, raw)
        return flag_unread(event, "actions", unread, blob) if unread else event

    def _build_event(self, row: Row, raw: Row) -> StoredEvent:
        wire, changes = normalize_event(raw)
        wire["id"] = str(row["id"])
        wire["invocationId"] = str(row.get("invocation_id") or "")
        if "timestamp" not in wire:
            wire["timestamp"] = parse_timestamp(row["timestamp"], self._zone)
        owner = Owner(row["app_name"], row["user_id"], row["session_id"])
        return StoredEvent(owner, wire, changes, removed=removed_keys(wire))


class ColumnSource(TableSource):
    """Sessions of a database with a column for each field of an event."""

    def read_event(self, row: Row) -> StoredEvent:
        """Return an event of its columns."""
        raw: Row = {name: row.get(name) for name in PLAIN_COLUMNS}
        raw |= {name: None if row.get(name) is None else bool(row[name]) for name in FLAG_COLUMNS}
        raw |= {name: decode_json(row.get(name)) for name in JSON_COLUMNS}
        raw["long_running_tool_ids"] = decode_json(row.get("long_running_tool_ids_json")) or None
        return self.read_event_with_actions(row, raw | self.more_fields(row))

    def more_fields(self, row: Row) -> Row:
        """Return fields that other layouts do not have."""
        return {}


@dataclass(frozen=True, kw_only=True)
class TableImporter(Importer):
    """Importer of databases in ADK's layout.

    Attributes:
        source: the class that reads them.
        has_local_times: times may be local, so that the time zone of an import applies.
    """

    source: type[TableSource] = TableSource
    has_local_times: bool = False

    def matches_database(self, database: Database) -> bool:
        """Tell whether a database has ADK's tables, with events as this format stores them."""
        events = database.columns("events")
        has_tables = database.columns("sessions") >= SESSION_COLUMNS and events >= EVENT_COLUMNS
        return has_tables and self.matches_events(database, events)

    def matches_events(self, database: Database, columns: set[str]) -> bool:
        """Tell whether events are stored as in this format. `columns` are those of their table."""
        raise NotImplementedError

    def open_database(
        self, database: Database, location: str, source_filter: SourceFilter, zone: tzinfo
    ) -> TableSource:
        """Read from a database."""
        return self.source(
            database, self.name, location, source_filter, zone if self.has_local_times else UTC
        )


def has_json_actions(database: Database) -> bool | None:
    """Tell whether a column has an event's actions in JSON; False for pickles, None if no event has actions."""
    sql = "SELECT actions FROM events WHERE actions IS NOT NULL LIMIT 1"
    actions = first_row(database, sql).get("actions")
    if actions is None:
        return None
    return not isinstance(actions, bytes | bytearray | memoryview) or bytes(actions[:1]) == b"{"


def has_milliseconds(database: Database) -> bool:
    """Tell whether the times in a store with events in JSON are milliseconds."""
    session = first_row(database, "SELECT update_time FROM sessions LIMIT 1")
    event = first_row(database, "SELECT event_data FROM events WHERE event_data IS NOT NULL LIMIT 1")
    try:
        data = decode_json(event.get("event_data"))
    except ValueError:
        data = None
    timestamp = data.get("timestamp") if isinstance(data, dict) else None
    return is_in_milliseconds(session.get("update_time")) or is_in_milliseconds(timestamp)


def flag_unread(event: StoredEvent, part: str, why: str, blob: Any) -> StoredEvent:
    """Return an event that names the part that could not be read and stores its bytes."""
    metadata = {**event.wire.get("customMetadata", {}), UNREAD: {part: why}}
    raw = bytes(blob) if isinstance(blob, bytes | bytearray | memoryview) else str(blob).encode()
    if len(raw) <= MAX_RAW:
        metadata[RAW] = {part: base64.b64encode(raw).decode()}
    wire = {**event.wire, "customMetadata": metadata}
    return StoredEvent(event.owner, wire, event.changes, unread=f"{part}: {why}")


def read_actions(blob: Any, reader: pickles.PickleReader) -> Any:
    """Return an event's actions from a pickle or from JSON, by the first byte.

    Raises:
        ReadingFailed: the value is neither, or its pickle cannot be read.
    """
    if blob is None:
        return {}
    if isinstance(blob, bytes | bytearray | memoryview):
        data = bytes(blob)
        if not data:
            return {}
        if data[:1] not in b"{n \n":
            return _require_mapping(reader.read(data))
        blob = data
    try:
        return _require_mapping(decode_json(blob))
    except (ValueError, RecursionError) as error:
        raise ReadingFailed(f"they are neither a pickle nor JSON ({error})") from error


def _require_mapping(value: Any) -> Any:
    if not isinstance(value, dict | None):
        raise ReadingFailed(f"they are a {type(value).__name__}, not actions")
    return value or {}


def decode_json(value: Any) -> Any:
    """Return a JSON column's value, which drivers of servers have decoded already.

    Raises:
        ValueError, RecursionError: the value is no JSON that can be read.
    """
    if isinstance(value, memoryview):
        value = bytes(value)
    if isinstance(value, str | bytes | bytearray):
        return (
            text_input.parse_json(bytes(value) if isinstance(value, bytearray) else value) if value else None
        )
    return value


def _decode_object(value: Any) -> dict[str, Any]:
    value_json = decode_json(value)
    if not isinstance(value_json, dict):
        raise ValueError(f"it is a {type(value_json).__name__}, not an object")
    return value_json


def first_row(database: Database, sql: str) -> Row:
    """Return the only row of a query, or {}."""
    return next(iter(list(database.rows(sql))), {})
