"""Search within one session: which of its events a query finds, how many, and those around the one that is open.

A session may have a million events, and not every term has an index. So nothing here reads more than a window of them,
what is counted is counted up to a bound, and an answer that takes long ends where it is: it says how far it looked, and
the next one goes on from there.
"""

from sessions_app.timeline.session_search.hit_windows import HitWindow, after, around, before, marked, newest
from sessions_app.timeline.session_search.hits import NOT_YET, Asked, AskedPart, Counted, Found, Side, found
from sessions_app.timeline.session_search.scan import SessionSearch
from sessions_app.timeline.session_search.suggestions import Chip, chips, vocabulary

__all__ = [
    "NOT_YET",
    "Asked",
    "AskedPart",
    "Chip",
    "Counted",
    "Found",
    "HitWindow",
    "SessionSearch",
    "Side",
    "after",
    "around",
    "before",
    "chips",
    "found",
    "marked",
    "newest",
    "vocabulary",
]
