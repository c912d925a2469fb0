"""Counts of a scope's keys at two points in time, and of those that differ."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from django.db import connection

from sessions_app.store.models import Scope
from sessions_app.store.state.keys import KeyAt
from sessions_app.store.state.points import (
    IS_SAME,
    LIKE,
    PointPair,
    differing_keys_sql,
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
    def changed_keys(self) -> int:
        """Number of keys with different values."""
        return self.either - self.same


_HOW_MANY = f"""
SELECT count(CASE WHEN old.removed = %(no)s THEN 1 END), count(CASE WHEN new.removed = %(no)s THEN 1 END), count(*),
    count(CASE WHEN {IS_SAME} THEN 1 END)
"""


def count(points: PointPair, scope: Scope, like: str = "") -> Counts:
    """Return the counts of a scope's keys at two points, the later of which is now.

    In a large scope only keys written in between are compared.
    """
    if not points.has(scope):
        return Counts(0, 0, 0)
    stored = points.count_keys(scope)
    if like:
        comparison = _compare_keys(points, scope, matching_keys_sql(stored), like)
        return Counts(comparison.then, comparison.either, comparison.changed_keys)
    if points.is_one(scope):
        return Counts(stored, stored, 0)
    comparison = _compare_keys(points, scope, differing_keys_sql(stored))
    untouched = stored - comparison.later
    return Counts(untouched + comparison.then, untouched + comparison.either, comparison.changed_keys)


def count_changed(points: PointPair, scope: Scope, stored: int) -> int:
    """Return how many keys of a scope, which has `stored` keys now, differ between two points in time."""
    return _compare_keys(points, scope, differing_keys_sql(stored)).changed_keys


def _compare_keys(points: PointPair, scope: Scope, keys: str, like: str = "") -> _Comparison:
    """Compare keys of a scope; `keys` is SQL, `like` as in `first_keys`."""
    query = f"{keys} {_HOW_MANY} {writes_at_both()} {LIKE if like else ''}"
    with connection.cursor() as cursor:
        cursor.execute(query, {**points.params(scope), **like_params(scope, like)})
        return _Comparison(*cursor.fetchone())
