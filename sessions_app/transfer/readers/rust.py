"""Reader of adk-rust's tables, which store merged states and content parts without type tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sessions_app import scopes
from sessions_app.events.timestamps import parse_timestamp
from sessions_app.transfer.readers.databases import Row
from sessions_app.transfer.readers.normalization import normalize_event
from sessions_app.transfer.readers.pickles import UnsafePickle
from sessions_app.transfer.readers.records import Owner, SharedState, StoredEvent, StoredSession, StoredState
from sessions_app.transfer.readers.tables import TableSource, decode_json, flag_unread, read_actions

ENCRYPTED = "__encrypted_state"


class RustSource(TableSource):
    """Sessions of adk-rust's SQL services."""

    def sessions(self) -> Any:
        """Yield the sessions."""
        sql = "SELECT app_name, user_id, session_id AS id, created_at, updated_at FROM sessions"
        yield from self._rows(sql, "session", self._session)

    def states(self) -> Any:
        """Yield the session scope of each merged state."""
        sql = "SELECT app_name, user_id, session_id AS id, state FROM sessions"
        yield from self._rows(sql, "state of", self._state)

    def shared(self) -> Any:
        """Yield the state of apps and users."""
        sql = "SELECT app_name, state, updated_at FROM app_states"
        yield from self._rows(sql, "state of app", self._shared_state, by_user=False)
        sql = "SELECT app_name, user_id, state, updated_at FROM user_states"
        yield from self._rows(sql, "state of user", self._shared_state)

    def _session(self, row: Row) -> StoredSession:
        owner = Owner(row["app_name"], row["user_id"], row["id"])
        return StoredSession(owner, parse_timestamp(row["created_at"]), parse_timestamp(row["updated_at"]))

    def _state(self, row: Row) -> StoredState:
        values = _require_plain_state(decode_json(row["state"]))
        return StoredState(
            Owner(row["app_name"], row["user_id"], row["id"]), scopes.split_delta(values).session
        )

    def _shared_state(self, row: Row) -> SharedState:
        values = _require_plain_state(decode_json(row["state"]))
        return SharedState(row["app_name"], row.get("user_id"), values, parse_timestamp(row["updated_at"]))

    def _event_of_columns(self, row: Row) -> StoredEvent:
        raw = dict(decode_json(row.get("llm_response")) or {})
        raw |= {name: row.get(name) for name in ("author", "branch")}
        raw["long_running_tool_ids"] = decode_json(row.get("long_running_tool_ids")) or None
        unread = ""
        try:
            raw["actions"] = read_actions(row.get("actions"))
        except UnsafePickle as error:
            unread = str(error)
        if isinstance(raw.get("content"), dict):
            raw["content"] = {
                **raw["content"],
                "parts": [convert_part(each) for each in raw["content"].get("parts") or []],
            }
        wire, changes = normalize_event(raw)
        wire["id"], wire["invocationId"] = str(row["id"]), str(row.get("invocation_id") or "")
        wire["timestamp"] = parse_timestamp(row["timestamp"])
        event = StoredEvent(Owner(row["app_name"], row["user_id"], row["session_id"]), wire, changes)
        return flag_unread(event, "actions", unread, row.get("actions")) if unread else event


def convert_part(value: Any) -> Any:
    """Return a content part of adk-rust in ADK's form. Its type follows from its fields."""
    if not isinstance(value, Mapping):
        return value
    fields = dict(value)
    for name, build in _PARTS:
        if name in fields:
            return build(fields)
    return fields


def _blob(value: dict[str, Any]) -> dict[str, Any]:
    return {"inline_data": {"mime_type": value.pop("mime_type", None), "data": value.pop("data")}, **value}


def _file(value: dict[str, Any]) -> dict[str, Any]:
    return {
        "file_data": {"mime_type": value.pop("mime_type", None), "file_uri": value.pop("file_uri")},
        **value,
    }


def _thinking(value: dict[str, Any]) -> dict[str, Any]:
    return {
        "text": value.pop("thinking"),
        "thought": True,
        "thought_signature": value.pop("signature", None),
        **value,
    }


def _call(value: dict[str, Any]) -> dict[str, Any]:
    call = {name: value.pop(name, None) for name in ("id", "name", "args")}
    return {"function_call": call, **value}


def _response(value: dict[str, Any]) -> dict[str, Any]:
    name = "functionResponse" if "functionResponse" in value else "function_response"
    response = {**value.pop(name), "id": value.pop("id", None)}
    return {"function_response": response, **value}


_PARTS = (
    ("thinking", _thinking),
    ("functionResponse", _response),
    ("function_response", _response),
    ("args", _call),
    ("data", _blob),
    ("file_uri", _file),
)
"""(field that identifies a type of part, its converter), most specific first"""


def _require_plain_state(values: Any) -> dict[str, Any]:
    """Return a stored state.

    Raises:
        ValueError: the state is encrypted, or no object.
    """
    if not isinstance(values, dict):
        raise ValueError("the state is no object")
    if ENCRYPTED in values:
        raise ValueError("the state is encrypted; its events are read without it")
    return values
