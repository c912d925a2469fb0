"""Importer of the database service of ADK for Go."""

from __future__ import annotations

from sessions_app.transfer.readers.databases import Database, Row
from sessions_app.transfer.readers.tables import ColumnSource, TableImporter, decode_json, has_json_actions

COLUMNS = {
    "routes_json": "routes",
    "output_json": "output",
    "node_info_json": "node_info",
    "requested_input_json": "requested_input",
}


class GoSource(ColumnSource):
    """Sessions with a column for each field of an event, and actions in JSON."""

    def more_fields(self, row: Row) -> Row:
        """Return the fields that only Go stores in columns."""
        return {field: decode_json(row.get(column)) for column, field in COLUMNS.items()}


class GoImporter(TableImporter):
    """Importer of events in columns with JSON in `actions`."""

    def matches_events(self, database: Database, columns: set[str]) -> bool:
        """Tell whether actions are JSON or, in a store without any, whether Go's columns exist."""
        if "actions" not in columns or columns & {"event_data", "llm_response"}:
            return False
        has_json = has_json_actions(database)
        return "routes_json" in columns if has_json is None else has_json


GO = GoImporter(name="ADK for Go", source=GoSource)
