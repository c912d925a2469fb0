"""Importer of `SqliteSessionService` of ADK for Python."""

from sessions_app.transfer.readers.databases import Database
from sessions_app.transfer.readers.tables import TableImporter, has_milliseconds


class SqliteServiceImporter(TableImporter):
    """Importer of events in JSON, in a store without a schema version."""

    def matches_events(self, database: Database, columns: set[str]) -> bool:
        """Tell whether events are JSON with times in seconds, in a store without a schema version."""
        has_version = bool(database.columns("adk_internal_metadata"))
        return "event_data" in columns and not has_version and not has_milliseconds(database)


SQLITE = SqliteServiceImporter(name="ADK SqliteSessionService")
