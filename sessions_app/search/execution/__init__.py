"""Execution of search queries: sessions, the hit shown for each, and events within one session.

A list shows one page of sessions, newest first. If an index knows few sessions for a term, their keys select them.
Other terms are tested on each session from the newest on, window by window, each scan for a short time (see
`windowed_scan`). Events behind a session's index cursor are scanned directly (see `unindexed_scan`).
"""

from sessions_app.search.execution.event_queries import EVENT_FIELDS, EventQuery, session_terms
from sessions_app.search.execution.hits import Hit
from sessions_app.search.execution.session_queries import Search
from sessions_app.search.execution.unindexed_scan import count_unindexed
from sessions_app.search.execution.windowed_scan import ORDER_FIELD, scan

__all__ = [
    "EVENT_FIELDS",
    "ORDER_FIELD",
    "EventQuery",
    "Hit",
    "Search",
    "count_unindexed",
    "scan",
    "session_terms",
]
