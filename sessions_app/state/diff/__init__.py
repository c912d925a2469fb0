"""The keys of a session's scopes at two moments: the first of them, those that are named, those that differ, how many.

A scope may have a hundred thousand keys, of which a page shows some dozens: values are compared where they lie, and
what is not shown is counted there. Two values are the same when their JSON text is, which is written in one spelling
(`state.canonical`): 1 and 1.0 differ, as 1 and true do.
"""

from sessions_app.state.diff.counts import Counts, count
from sessions_app.state.diff.differences import Diff, KeyDiff, diff
from sessions_app.state.diff.keys import KeyAt, first_keys, keys_by_id
from sessions_app.state.diff.points import KeyRef, PointPair, is_large, written_keys_sql

__all__ = [
    "Counts",
    "Diff",
    "KeyAt",
    "KeyDiff",
    "KeyRef",
    "PointPair",
    "count",
    "diff",
    "first_keys",
    "is_large",
    "keys_by_id",
    "written_keys_sql",
]
