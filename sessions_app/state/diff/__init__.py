"""Differences between the state at two points in time: first keys, keys by id, changed keys, counts.

A scope may have 100,000 keys, of which a page shows a few dozen: the database compares values, and counts the keys that
are not shown. Two values are equal if their canonical JSON text is (`scopes.canonical`): 1 and 1.0 differ, as do 1 and
true.
"""

from sessions_app.state.diff.counts import Counts, count
from sessions_app.state.diff.differences import Diff, KeyDiff, diff
from sessions_app.state.diff.keys import KeyAt, first_keys, keys_by_id
from sessions_app.state.diff.points import KeyRef, PointPair, written_keys_sql

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
    "keys_by_id",
    "written_keys_sql",
]
