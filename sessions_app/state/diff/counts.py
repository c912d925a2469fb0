"""How many keys a scope has at two moments, and how many of them differ."""

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
    """How many keys have a value at the earlier of two moments, at either, and not the same one at both."""

    then: int
    either: int
    changed: int

    @classmethod
    def of(cls, keys: Collection[KeyAt]) -> Counts:
        """Count keys that are all there are."""
        then = sum(key.then is not None for key in keys)
        return cls(then, len(keys), sum(not key.is_same for key in keys))


class _Comparison(NamedTuple):
    """How many of some keys have a value then, later, at either moment, and the same one at both."""

    then: int
    later: int
    either: int
    same: int

    @property
    def changed(self) -> int:
        """How many have not the same value at both."""
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
"""The keys that were written both until one moment and between it and another."""

_WRITES_OF_KEYS = """
SELECT count(*), count(CASE WHEN earliest > %(then)s THEN 1 END),
    count(CASE WHEN earliest <= %(then)s AND latest > %(then)s THEN 1 END)
FROM (
    SELECT min(position) AS earliest, max(position) AS latest FROM sessions_app_statechange
    WHERE scope = %(scope)s AND owner_id = %(owner)s AND position <= %(later)s GROUP BY key_id
) AS written
"""
"""How many keys were ever written, how many only after a moment, how many both until it and after."""

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
"""How many keys were first written after a moment, and are removed at another."""


def count(moments: PointPair, scope: Scope, like: str = "") -> Counts:
    """Return how many keys of a scope there are at two moments, the later of which is now.

    Of very many keys only those are looked at that were written in between; where these are very many, too, the
    index of the ledger tells which are new since, and values are compared of the others alone.
    """
    if not moments.has(scope):
        return Counts(0, 0, 0)
    stored = moments.stored(scope)
    if like:
        found = _compare_keys(moments, scope, matching_keys_sql(stored), like)
        return Counts(found.then, found.either, found.changed)
    if moments.is_one(scope):
        return Counts(stored, stored, 0)
    if is_large(stored) and moments.are_far_apart(scope):
        came, found = _count_by_index(moments, scope, stored)
    else:
        came, found = 0, _compare_keys(moments, scope, differing_keys_sql(stored))
    untouched = stored - came - found.later
    return Counts(untouched + found.then, untouched + came + found.either, came + found.changed)


def count_changed(moments: PointPair, scope: Scope, stored: int, *, are_far_apart: bool) -> int:
    """Return how many keys of a scope differ between any two moments.

    Args:
        moments: when.
        scope: whose keys.
        stored: how many it has now.
        are_far_apart: very many were written in between (`Moments.are_far_apart`).
    """
    if not are_far_apart:
        return _compare_keys(moments, scope, differing_keys_sql(stored)).changed
    came, found = _count_by_index(moments, scope)
    return came + found.changed


def _count_by_index(moments: PointPair, scope: Scope, held: int | None = None) -> tuple[int, _Comparison]:
    """Return how many keys came between the moments, and those compared that were there and were written again.

    Args:
        moments: when.
        scope: whose keys.
        held: how many keys have a value at the later moment; None: unknown. Where as many have one as were ever
            written, none is gone.
    """
    given = moments.given(scope)
    ever, came, again = first_row(_WRITES_OF_KEYS, given)
    if came and ever != held:
        came -= first_row(_REMOVED_AGAIN, given)[0]
    return came, _compare_keys(moments, scope, _WRITTEN_AGAIN) if again else _NONE


def _compare_keys(moments: PointPair, scope: Scope, keys: str, like: str = "") -> _Comparison:
    """Compare keys of a scope; `keys` is SQL, `like` as in `first_keys`."""
    query = f"{keys} {_HOW_MANY} {writes_at_both()} {LIKE if like else ''}"
    return _Comparison(*first_row(query, {**moments.given(scope), **like_params(scope, like)}))
