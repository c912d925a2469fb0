"""Reader of the tables of ADK's SQL services in Python, JavaScript and Go."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, tzinfo
from typing import Any

from sessions_app import scopes
from sessions_app.events.timestamps import parse_timestamp
from sessions_app.transfer.readers import pickles
from sessions_app.transfer.readers.databases import Database, Row
from sessions_app.transfer.readers.normalization import normalize_event, removed_keys
from sessions_app.transfer.readers.records import (
    Format,
    Owner,
    SharedState,
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

OFFSET_STEP_S = 900
"""Offsets of time zones are multiples of a quarter of an hour."""

_JSON_COLUMNS = (
    "content",
    "grounding_metadata",
    "custom_metadata",
    "usage_metadata",
    "citation_metadata",
    "input_transcription",
    "output_transcription",
)
_FLAG_COLUMNS = ("partial", "turn_complete", "interrupted")
_PLAIN_COLUMNS = ("author", "branch", "isolation_scope", "error_code", "error_message")
_GO_COLUMNS = {
    "routes_json": "routes",
    "output_json": "output",
    "node_info_json": "node_info",
    "requested_input_json": "requested_input",
}


class TableSource:
    """Sessions of a database in ADK's layout."""

    def __init__(
        self, database: Database, kind: Format, location: str, choice: SourceFilter, zone: tzinfo = UTC
    ) -> None:
        """Read from `database`. `zone` applies to event times of v0, which old ADKs wrote in local time."""
        self.format = kind
        self.location = location
        self.remarks: list[str] = []
        self._database = database
        self._choice = choice
        self._zone = zone if kind is Format.V0 else UTC
        self._read_event: Callable[[Row], StoredEvent] = (
            self._whole_event if kind in {Format.SQLITE, Format.V1, Format.JS} else self._event_of_columns
        )
        if kind is Format.V0 and str(zone) == "UTC":
            self._suspect_local_times()

    def fingerprint(self) -> str:
        """Return the fingerprint of the database."""
        return self._database.fingerprint()

    def sessions(self) -> Iterator[StoredSession | UnreadableRow]:
        """Yield the sessions."""
        sql = "SELECT app_name, user_id, id, create_time, update_time FROM sessions"
        yield from self._rows(sql, "session", self._session)

    def states(self) -> Iterator[StoredState | UnreadableRow]:
        """Yield the sessions' own state."""
        yield from self._rows("SELECT app_name, user_id, id, state FROM sessions", "state of", self._state)

    def shared(self) -> Iterator[SharedState | UnreadableRow]:
        """Yield the state of apps and users, if the store has these tables."""
        if self._database.columns("app_states"):
            sql = "SELECT app_name, state, update_time FROM app_states"
            yield from self._rows(sql, "state of app", self._shared_state, by_user=False)
        if self._database.columns("user_states"):
            sql = "SELECT app_name, user_id, state, update_time FROM user_states"
            yield from self._rows(sql, "state of user", self._shared_state)

    def count_events(self) -> int | None:
        """Return the number of matching events."""
        where, values = self._where()
        for row in self._database.rows(f"SELECT count(*) AS n FROM events{where}", values):  # noqa: S608
            return int(row["n"])
        return None

    def events(self, only: Collection[Owner] | None = None) -> Iterator[StoredEvent | UnreadableRow]:
        """Yield the events by time, events of equal time in the order they were appended if known."""
        where, values = self._where()
        if only is not None:
            some = " OR ".join(["(app_name = %s AND user_id = %s AND session_id = %s)"] * len(only))
            where = f"{where} AND ({some})" if where else f" WHERE {some}"
            values = [*values, *(part for owner in only for part in owner)]
        order = self._database.append_order
        sql = f"SELECT * FROM events{where} ORDER BY timestamp, {order}"  # noqa: S608 - no outside text
        for row in self._database.rows(sql, values):
            try:
                yield self._read_event(row)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                owner = "/".join(str(row.get(name)) for name in ("app_name", "user_id", "session_id", "id"))
                yield UnreadableRow(f"event {owner}", str(error) or type(error).__name__)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _rows(
        self, sql: str, what: str, read: Callable[[Row], Any], *, by_user: bool = True
    ) -> Iterator[Any]:
        where, values = self._where(by_user=by_user)
        for row in self._database.rows(sql + where, values):
            try:
                yield read(row)
            except (ValueError, TypeError, RecursionError) as error:
                names = [str(row[name]) for name in ("app_name", "user_id", "id") if name in row]
                yield UnreadableRow(f"{what} {'/'.join(names)}", str(error) or type(error).__name__)

    def _where(self, *, by_user: bool = True) -> tuple[str, list[str]]:
        columns = {"app_name": self._choice.app_name, "user_id": self._choice.user_id if by_user else None}
        filters = {name: value for name, value in columns.items() if value is not None}
        terms = " AND ".join(f"{name} = %s" for name in filters)
        return (f" WHERE {terms}" if terms else ""), list(filters.values())

    def _session(self, row: Row) -> StoredSession:
        created, updated = parse_timestamp(row["create_time"]), parse_timestamp(row["update_time"])
        return StoredSession(Owner(row["app_name"], row["user_id"], row["id"]), created, updated)

    def _state(self, row: Row) -> StoredState:
        values = scopes.split_delta(_decode_object(row["state"])).session
        return StoredState(Owner(row["app_name"], row["user_id"], row["id"]), values)

    def _shared_state(self, row: Row) -> SharedState:
        values = _decode_object(row["state"])
        return SharedState(row["app_name"], row.get("user_id"), values, parse_timestamp(row["update_time"]))

    def _whole_event(self, row: Row) -> StoredEvent:
        """Read an event stored as JSON. Its columns take precedence, except for the time (`schemas/v1.py`)."""
        raw = _decode_object(row["event_data"]) if row["event_data"] is not None else {}
        return _build_event(row, raw, row["timestamp"], UTC)

    def _event_of_columns(self, row: Row) -> StoredEvent:
        """Read an event stored in columns. Its actions are a pickle (Python) or JSON (Go)."""
        raw: Row = {name: row.get(name) for name in _PLAIN_COLUMNS}
        raw |= {name: None if row.get(name) is None else bool(row[name]) for name in _FLAG_COLUMNS}
        raw |= {name: decode_json(row.get(name)) for name in _JSON_COLUMNS}
        raw |= {field: decode_json(row.get(column)) for column, field in _GO_COLUMNS.items()}
        raw["long_running_tool_ids"] = decode_json(row.get("long_running_tool_ids_json")) or None
        blob = row.get("actions")
        try:
            raw["actions"] = read_actions(blob)
        except pickles.UnsafePickle as error:
            return flag_unread(
                _build_event(row, raw, row["timestamp"], self._zone), "actions", str(error), blob
            )
        return _build_event(row, raw, row["timestamp"], self._zone)

    def _suspect_local_times(self) -> None:
        """Add a remark when event times look like local time, which old ADKs wrote."""
        sql = (
            "SELECT s.update_time AS updated, max(e.timestamp) AS newest FROM sessions s JOIN events e"
            " ON e.app_name = s.app_name AND e.user_id = s.user_id AND e.session_id = s.id"
            " GROUP BY s.app_name, s.user_id, s.id, s.update_time"
        )
        offsets = {_offset(row) for row in self._database.rows(sql)}
        if len(offsets) == 1 and (offset := offsets.pop()):
            self.remarks.append(
                f"The times of events stand {offset / 3600:+g} h off the sessions' own times: an old ADK wrote"
                " them in local time. Name its zone with --timezone, such as Europe/Berlin."
            )


def _offset(row: Row) -> float:
    try:
        difference = parse_timestamp(row["newest"]) - parse_timestamp(row["updated"])
    except ValueError:
        return 0.0
    return round(difference / OFFSET_STEP_S) * OFFSET_STEP_S


def _build_event(row: Row, raw: Row, time: Any, zone: tzinfo) -> StoredEvent:
    wire, changes = normalize_event(raw)
    wire["id"] = str(row["id"])
    wire["invocationId"] = str(row.get("invocation_id") or "")
    if "timestamp" not in wire:
        wire["timestamp"] = parse_timestamp(time, zone)
    removed = removed_keys(wire)
    return StoredEvent(
        Owner(row["app_name"], row["user_id"], row["session_id"]), wire, changes, removed=removed
    )


def flag_unread(event: StoredEvent, part: str, why: str, blob: Any) -> StoredEvent:
    """Return an event that names the part that could not be read and stores its bytes."""
    metadata = {**event.wire.get("customMetadata", {}), UNREAD: {part: why}}
    raw = bytes(blob) if isinstance(blob, bytes | bytearray | memoryview) else str(blob).encode()
    if len(raw) <= MAX_RAW:
        metadata[RAW] = {part: base64.b64encode(raw).decode()}
    wire = {**event.wire, "customMetadata": metadata}
    return StoredEvent(event.owner, wire, event.changes, unread=f"{part}: {why}")


def read_actions(blob: Any) -> Any:
    """Return an event's actions from a pickle or from JSON, by the first byte.

    Raises:
        UnsafePickle: the value is neither.
    """
    if blob is None:
        return {}
    if isinstance(blob, bytes | bytearray | memoryview):
        data = bytes(blob)
        if not data:
            return {}
        if data[:1] not in b"{n \n":
            return _require_mapping(pickles.read_pickle(data))
        blob = data
    try:
        return _require_mapping(decode_json(blob))
    except (ValueError, RecursionError) as error:
        raise pickles.UnsafePickle(f"they are neither a pickle nor JSON ({error})") from error


def _require_mapping(value: Any) -> Any:
    if not isinstance(value, dict | None):
        raise pickles.UnsafePickle(f"they are a {type(value).__name__}, not actions")
    return value or {}


def decode_json(value: Any) -> Any:
    """Return a JSON column's value, which drivers of servers have decoded already.

    Raises:
        ValueError: the value is no JSON.
    """
    if isinstance(value, memoryview):
        value = bytes(value)
    if isinstance(value, str | bytes | bytearray):
        return json.loads(value) if value else None
    return value


def _decode_object(value: Any) -> dict[str, Any]:
    value_json = decode_json(value)
    if not isinstance(value_json, dict):
        raise ValueError(f"a {type(value_json).__name__} stands where an object should")
    return value_json


def first_row(database: Database, sql: str) -> Row:
    """Return the only row of a query, or {}."""
    return next(iter(list(database.rows(sql))), {})
