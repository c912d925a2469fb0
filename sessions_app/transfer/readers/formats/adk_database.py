"""Importer of `DatabaseSessionService` of ADK for Python, with events in JSON (schema v1)."""

from __future__ import annotations

from sessions_app.store.errors import BadInput
from sessions_app.transfer.readers.databases import Database
from sessions_app.transfer.readers.tables import TableImporter, has_milliseconds

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
