"""Importer of the first `DatabaseSessionService` of ADK for Python, with pickled actions (schema v0)."""

from __future__ import annotations

from sessions_app.transfer.readers.databases import Database
from sessions_app.transfer.readers.tables import ColumnSource, TableImporter, has_json_actions


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
