"""Counts of a scope's keys at two points in time, and of those that differ."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from sessions_app.models import Scope
from sessions_app.state.diff.keys import KeyAt
from sessions_app.state.diff.points import (
    IS_SAME,
    LIKE,
    PointPair,
    differing_keys_sql,
    first_row,
    is_large,
    like_params,
    matching_keys_sql,
    writes_at_both,
)


@dataclass(frozen=True, slots=True)
class Counts:
    """Number of keys with a value at the earlier point, at either, and with different values."""

    then: int
    either: int
    changed: int

    @classmethod
    def of(cls, keys: Collection[KeyAt]) -> Counts:
        """Count the given keys, which must be all keys of a scope."""
        then = sum(key.then is not None for key in keys)
        return cls(then, len(keys), sum(not key.is_same for key in keys))


class _Comparison(NamedTuple):
    """Number of keys with a value at the earlier point, the later one, either, and the same value at both."""

    then: int
    later: int
    either: int
    same: int

    @property
    def changed(self) -> int:
        """Number of keys with different values."""
        return self.either - self.same


_NONE = _Comparison(0, 0, 0, 0)


_HOW_MANY = f"""
SELECT count(CASE WHEN old.removed = %(no)s THEN 1 END), count(CASE WHEN new.removed = %(no)s THEN 1 END), count(*),
    count(CASE WHEN {IS_SAME} THEN 1 END)
"""

_WRITTEN_AGAIN = """
WITH keys AS (
    SELECT key_id FROM sessions_app_statechange
    WHERE scope = %(scope)s AND owner_id = %(owner)s AND position <= %(later)s
    GROUP BY key_id HAVING min(position) <= %(then)s AND max(position) > %(then)s
)
"""
"""Keys written both up to the earlier point and after it."""

_WRITES_OF_KEYS = """
SELECT count(*), count(CASE WHEN earliest > %(then)s THEN 1 END),
    count(CASE WHEN earliest <= %(then)s AND latest > %(then)s THEN 1 END)
FROM (
    SELECT min(position) AS earliest, max(position) AS latest FROM sessions_app_statechange
    WHERE scope = %(scope)s AND owner_id = %(owner)s AND position <= %(later)s GROUP BY key_id
) AS written
"""
"""Number of keys ever written, of those new after the earlier point, of those written before and after."""

_REMOVED_AGAIN = """
SELECT count(*) FROM sessions_app_statechange AS gone
WHERE scope = %(scope)s AND owner_id = %(owner)s AND position > %(then)s AND position <= %(later)s AND removed = %(yes)s
    AND NOT EXISTS (
        SELECT 1 FROM sessions_app_statechange AS other
        WHERE other.scope = gone.scope AND other.owner_id = gone.owner_id AND other.key_id = gone.key_id
            AND other.position <= %(later)s AND other.id != gone.id AND (
                other.position <= %(then)s OR other.position > gone.position
                OR other.position = gone.position AND other.id > gone.id
            )
    )
"""
"""Number of keys first written after the earlier point and removed at the later one."""


def count(points: PointPair, scope: Scope, like: str = "") -> Counts:
    """Return the counts of a scope's keys at two points, the later of which is now.

    In a large scope only keys written in between are compared. If these are many too, the ledger's index finds the
    new ones, and only the others are compared.
    """
    if not points.has(scope):
        return Counts(0, 0, 0)
    stored = points.stored(scope)
    if like:
        comparison = _compare_keys(points, scope, matching_keys_sql(stored), like)
        return Counts(comparison.then, comparison.either, comparison.changed)
    if points.is_one(scope):
        return Counts(stored, stored, 0)
    if is_large(stored) and points.are_far_apart(scope):
        came, comparison = _count_by_index(points, scope, stored)
    else:
        came, comparison = 0, _compare_keys(points, scope, differing_keys_sql(stored))
    untouched = stored - came - comparison.later
    return Counts(
        untouched + comparison.then, untouched + came + comparison.either, came + comparison.changed
    )


def count_changed(points: PointPair, scope: Scope, stored: int, *, are_far_apart: bool) -> int:
    """Return how many keys of a scope differ between two points in time.

    Args:
        points: the two points.
        scope: the scope.
        stored: number of keys that it has now.
        are_far_apart: whether very many keys were written in between (`PointPair.are_far_apart`).
    """
    if not are_far_apart:
        return _compare_keys(points, scope, differing_keys_sql(stored)).changed
    came, comparison = _count_by_index(points, scope)
    return came + comparison.changed


def _count_by_index(points: PointPair, scope: Scope, stored: int | None = None) -> tuple[int, _Comparison]:
    """Return the number of keys that are new, and the comparison of the older keys that were written again.

    Args:
        points: the two points.
        scope: the scope.
        stored: number of keys with a value at the later point; None: unknown. If all keys ever written have one,
            none was removed.
    """
    params = points.params(scope)
    ever, came, again = first_row(_WRITES_OF_KEYS, params)
    if came and ever != stored:
        came -= first_row(_REMOVED_AGAIN, params)[0]
    return came, _compare_keys(points, scope, _WRITTEN_AGAIN) if again else _NONE


def _compare_keys(points: PointPair, scope: Scope, keys: str, like: str = "") -> _Comparison:
    """Compare keys of a scope; `keys` is SQL, `like` as in `first_keys`."""
    query = f"{keys} {_HOW_MANY} {writes_at_both()} {LIKE if like else ''}"
    return _Comparison(*first_row(query, {**points.params(scope), **like_params(scope, like)}))
