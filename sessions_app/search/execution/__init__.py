"""Queries of the search box, answered by the store: sessions, the hit that each is found by, events of one session.

Lists show the newest sessions first and need one page of them. A term that an index knows few sessions of is answered
by their keys. Any other one is tested on the list's way from the newest session on, where a sample of the newest tells
that a page is soon found; else an index lists its sessions at once. What neither answers is looked for window by
window, each look for a short time (see `windows`). What was written since a session was last indexed (see `indexing`)
is looked at itself.
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
