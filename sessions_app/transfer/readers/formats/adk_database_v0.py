"""ADK for Python: stores of the first `DatabaseSessionService`, with pickled actions (schema v0)."""

from __future__ import annotations

from datetime import tzinfo

from sessions_app.events.timestamps import parse_timestamp
from sessions_app.transfer.readers.databases import Database, Row
from sessions_app.transfer.readers.records import SourceFilter
from sessions_app.transfer.readers.tables import ColumnSource, TableImporter, has_json_actions

OFFSET_STEP_S = 900
"""Offsets of time zones are multiples of a quarter of an hour."""


class PickledSource(ColumnSource):
    """Sessions with a column for each field of an event, pickled actions and times without a time zone."""

    def __init__(
        self, database: Database, format: str, location: str, source_filter: SourceFilter, zone: tzinfo
    ) -> None:
        """Read from `database`. Add a remark when event times look like local time, which old ADKs wrote."""
        super().__init__(database, format, location, source_filter, zone)
        if str(zone) != "UTC":
            return
        sql = (
            "SELECT s.update_time AS updated, max(e.timestamp) AS newest FROM sessions s JOIN events e"
            " ON e.app_name = s.app_name AND e.user_id = s.user_id AND e.session_id = s.id"
            " GROUP BY s.app_name, s.user_id, s.id, s.update_time"
        )
        offsets = {_offset(row) for row in database.rows(sql)}
        if len(offsets) == 1 and (offset := offsets.pop()):
            self.remarks.append(
                f"The times of events differ by {offset / 3600:+g} h from their sessions' times: an old ADK wrote"
                " them in local time. Name its zone with --timezone, such as Europe/Berlin."
            )


class PickledImporter(TableImporter):
    """Importer of events in columns with pickles in `actions`."""

    def matches_events(self, database: Database, columns: set[str]) -> bool:
        """Tell whether actions are pickles or, in a store without any, whether Go's columns are missing."""
        if "actions" not in columns or columns & {"event_data", "llm_response"}:
            return False
        has_json = has_json_actions(database)
        return "routes_json" not in columns if has_json is None else not has_json


V0 = PickledImporter(
    name="ADK DatabaseSessionService (v0, pickled actions)", source=PickledSource, has_local_times=True
)


def _offset(row: Row) -> float:
    try:
        difference = parse_timestamp(row["newest"]) - parse_timestamp(row["updated"])
    except ValueError:
        return 0.0
    return round(difference / OFFSET_STEP_S) * OFFSET_STEP_S
