"""Importers of the databases that ADK's session services write, in Python, JavaScript and Go.

Their tables differ little: each importer tells its own from the others by columns and by the form of values.
"""

from __future__ import annotations

from sessions_app.store.errors import BadInput
from sessions_app.transfer.readers.databases import Database, Row
from sessions_app.transfer.readers.tables import (
    ColumnSource,
    TableImporter,
    decode_json,
    has_json_actions,
    has_milliseconds,
)

KNOWN_VERSION = "1"


class DatabaseServiceImporter(TableImporter):
    """Importer of events in JSON, in a store with a schema version."""

    def matches_events(self, database: Database, columns: set[str]) -> bool:
        """Tell whether events are JSON with times in seconds, in a store with a schema version.

        Raises:
            BadInput: the version is of a newer ADK.
        """
        if "event_data" not in columns or not database.columns("adk_internal_metadata"):
            return False
        metadata = {row["key"]: row["value"] for row in database.rows("SELECT * FROM adk_internal_metadata")}
        version = metadata.get("schema_version")
        if version not in (None, KNOWN_VERSION):
            raise BadInput(
                f"The store has schema version {version}; this DevUI knows {KNOWN_VERSION}.",
                hint="It was written by a newer ADK: update DevUI.",
            )
        return version is not None and not has_milliseconds(database)


V1 = DatabaseServiceImporter(name="ADK DatabaseSessionService (v1)")


class PickledImporter(TableImporter):
    """Importer of events in columns with pickles in `actions`."""

    def matches_events(self, database: Database, columns: set[str]) -> bool:
        """Tell whether actions are pickles or, in a store without any, whether Go's columns are missing."""
        if "actions" not in columns or columns & {"event_data", "llm_response"}:
            return False
        has_json = has_json_actions(database)
        return "routes_json" not in columns if has_json is None else not has_json


V0 = PickledImporter(
    name="ADK DatabaseSessionService (v0, pickled actions)", source=ColumnSource, has_local_times=True
)


class SqliteServiceImporter(TableImporter):
    """Importer of events in JSON, in a store without a schema version."""

    def matches_events(self, database: Database, columns: set[str]) -> bool:
        """Tell whether events are JSON with times in seconds, in a store without a schema version."""
        has_version = bool(database.columns("adk_internal_metadata"))
        return "event_data" in columns and not has_version and not has_milliseconds(database)


SQLITE = SqliteServiceImporter(name="ADK SqliteSessionService")


class JavaScriptImporter(TableImporter):
    """Importer of events in JSON with times in milliseconds."""

    def matches_events(self, database: Database, columns: set[str]) -> bool:
        """Tell whether events are JSON with times in milliseconds."""
        return "event_data" in columns and has_milliseconds(database)


JAVASCRIPT = JavaScriptImporter(name="ADK for JavaScript")


GO_COLUMNS = {
    "routes_json": "routes",
    "output_json": "output",
    "node_info_json": "node_info",
    "requested_input_json": "requested_input",
}


class GoSource(ColumnSource):
    """Sessions with a column for each field of an event, and actions in JSON."""

    def more_fields(self, row: Row) -> Row:
        """Return the fields that only Go stores in columns."""
        return {field: decode_json(row.get(column)) for column, field in GO_COLUMNS.items()}


class GoImporter(TableImporter):
    """Importer of events in columns with JSON in `actions`."""

    def matches_events(self, database: Database, columns: set[str]) -> bool:
        """Tell whether actions are JSON or, in a store without any, whether Go's columns exist."""
        if "actions" not in columns or columns & {"event_data", "llm_response"}:
            return False
        has_json = has_json_actions(database)
        return "routes_json" in columns if has_json is None else has_json


GO = GoImporter(name="ADK for Go", source=GoSource)
