"""Search within one session: which of its events a query finds, how many, and those around the one that is open.

A session may have a million events, and not every term has an index. So nothing here reads more than a window of them,
what is counted is counted up to a bound, and an answer that takes long ends where it is: it says how far it looked, and
the next one goes on from there.
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
