"""Importer of the database service of ADK for JavaScript."""

from sessions_app.transfer.readers.databases import Database
from sessions_app.transfer.readers.tables import TableImporter, has_milliseconds


class JavaScriptImporter(TableImporter):
    """Importer of events in JSON with times in milliseconds."""

    def matches_events(self, database: Database, columns: set[str]) -> bool:
        """Tell whether events are JSON with times in milliseconds."""
        return "event_data" in columns and has_milliseconds(database)


JAVASCRIPT = JavaScriptImporter(name="ADK for JavaScript")
