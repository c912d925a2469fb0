"""Search within a session: matching events, their count, and the hits around the selected event.

A session may have a million events, and not every term has an index. So at most a window of events is read, counting
has a limit, and a scan that exceeds its time budget returns its position, from which the next request continues.
"""

from sessions_app.timeline.session_search.hit_windows import (
    HitWindow,
    after,
    around,
    before,
    matching_seqs,
    newest,
)
from sessions_app.timeline.session_search.hits import (
    NOT_COUNTED,
    CountProgress,
    HitsBeside,
    HitsRequest,
    RequestedPart,
    SessionHits,
    find_hits,
)
from sessions_app.timeline.session_search.scan import SessionSearch
from sessions_app.timeline.session_search.suggestions import Chip, chips, vocabulary

__all__ = [
    "NOT_COUNTED",
    "Chip",
    "CountProgress",
    "HitWindow",
    "HitsBeside",
    "HitsRequest",
    "RequestedPart",
    "SessionHits",
    "SessionSearch",
    "after",
    "around",
    "before",
    "chips",
    "find_hits",
    "matching_seqs",
    "newest",
    "vocabulary",
]
