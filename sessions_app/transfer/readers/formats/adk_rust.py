"""Importer of the SQL services of adk-rust, with merged states and content parts without type tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sessions_app.transfer.readers.databases import Database, Row
from sessions_app.transfer.readers.records import StoredEvent
from sessions_app.transfer.readers.tables import TableImporter, TableSource, decode_json

ENCRYPTED = "__encrypted_state"


class RustSource(TableSource):
    """Sessions with a model response and actions in JSON columns."""

    session_id_column = "session_id"
    created_column = "created_at"
    updated_column = "updated_at"

    def decode_state(self, value: Any) -> dict[str, Any]:
        """Return a state.

        Raises:
            ValueError: the state is encrypted, or no object.
        """
        values = super().decode_state(value)
        if ENCRYPTED in values:
            raise ValueError("the state is encrypted; its events are read without it")
        return values

    def read_event(self, row: Row) -> StoredEvent:
        """Return an event of its model response and columns."""
        raw = convert_event({"llm_response": decode_json(row.get("llm_response"))})
        raw |= {name: row.get(name) for name in ("author", "branch")}
        raw["long_running_tool_ids"] = decode_json(row.get("long_running_tool_ids")) or None
        return self.read_event_with_actions(row, raw)


class RustImporter(TableImporter):
    """Importer of adk-rust's tables."""

    def matches_events(self, database: Database, columns: set[str]) -> bool:
        """Tell whether events have a model response."""
        return "llm_response" in columns and "session_id" in database.columns("sessions")


RUST = RustImporter(name="adk-rust", source=RustSource)


def convert_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event with tagged parts and with the fields of its model response at the top level."""
    response = event.get("llm_response")
    fields = {**(response if isinstance(response, dict) else {}), **event}
    fields.pop("llm_response", None)
    content = fields.get("content")
    if isinstance(content, dict) and isinstance(content.get("parts"), list):
        fields["content"] = {**content, "parts": [_convert_part(part) for part in content["parts"]]}
    return fields


def _convert_part(value: Any) -> Any:
    """Return a content part in ADK's form. Its type follows from its fields."""
    if not isinstance(value, Mapping):
        return value
    fields = dict(value)
    if "thinking" in fields:
        text, signature = fields.pop("thinking"), fields.pop("signature", None)
        return {"text": text, "thought": True, "thought_signature": signature, **fields}
    for name in ("functionResponse", "function_response"):
        if name in fields:
            return {"function_response": {**fields.pop(name), "id": fields.pop("id", None)}, **fields}
    for mark, (part, names) in TAGS.items():
        if mark in fields:
            return {part: {name: fields.pop(name, None) for name in names}, **fields}
    return fields


TAGS = {
    "args": ("function_call", ("id", "name", "args")),
    "data": ("inline_data", ("mime_type", "data")),
    "file_uri": ("file_data", ("mime_type", "file_uri")),
}
"""The part that a field identifies, and the fields that belong to the part."""
