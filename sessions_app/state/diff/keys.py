"""Keys that have a value at one of two moments: the first of a scope, and those that are named."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection

from sessions_app.models import Scope
from sessions_app.state.diff.points import (
    BATCH,
    FROM_KEY,
    IS_SAME,
    LIKE,
    PointPair,
    like_params,
    matching_keys_sql,
    writes_at_both,
)
from sessions_app.state.history import KEYS_FROM


@dataclass(frozen=True, slots=True)
class KeyAt:
    """A key that has a value at one of two moments.

    Attributes:
        then, later: the ledger rows that gave it its values; None: it had none.
        seq: the event of the session that wrote `then`; 0: something else did.
        is_same: it has the same value at both.
    """

    scope: Scope
    key_id: str
    then: int | None
    later: int | None
    seq: int
    is_same: bool


_KEYS = f"""
SELECT keys.key_id, CASE WHEN old.removed = %(no)s THEN old.id END, CASE WHEN new.removed = %(no)s THEN new.id END,
    CASE WHEN old.session_id = %(session)s THEN old.seq ELSE 0 END, CASE WHEN {IS_SAME} THEN 1 ELSE 0 END
"""


def first_keys(
    moments: PointPair, scope: Scope, limit: int = 0, like: str = "", begin: str = ""
) -> list[KeyAt]:
    """Return the first keys of a scope that have a value at one of the moments.

    Args:
        moments: when.
        scope: whose keys.
        limit: how many, in the order of their names; 0: all.
        like: what stands in the name, prefix and all, in letters of any case.
        begin: the `key_id` to begin with.
    """
    if not moments.has(scope):
        return []
    given = {**moments.given(scope), **like_params(scope, like), "limit": limit, "begin": begin}
    keys, order = (
        (matching_keys_sql(moments.stored(scope)), "ORDER BY keys.key_id") if like else (KEYS_FROM, "")
    )
    which = f"{LIKE if like else ''} {FROM_KEY if begin else ''}"
    return _read_keys(
        scope,
        f"{keys} {_KEYS} {writes_at_both()} {which} {order} {'LIMIT %(limit)s' if limit else ''}",
        given,
    )


def keys_by_id(moments: PointPair, scope: Scope, key_ids: Collection[str], like: str = "") -> list[KeyAt]:
    """Return those of some keys of a scope that have a value at one of the moments; `like` as in `first_keys`."""
    if not moments.has(scope):
        return []
    found: list[KeyAt] = []
    ordered = sorted(key_ids)
    for start in range(0, len(ordered), BATCH):
        named = {f"key_{at}": key_id for at, key_id in enumerate(ordered[start : start + BATCH])}
        places = ", ".join(f"(%({name})s)" for name in named)
        query = f"WITH keys(key_id) AS (VALUES {places}) {_KEYS} {writes_at_both()} {LIKE if like else ''}"
        found += _read_keys(scope, query, {**moments.given(scope), **like_params(scope, like), **named})
    return found


def _read_keys(scope: Scope, query: str, given: Mapping[str, Any]) -> list[KeyAt]:
    with connection.cursor() as cursor:
        cursor.execute(query, given)
        rows = sorted(cursor.fetchall())
    return [
        KeyAt(scope, key_id, then, later, seq, bool(is_same)) for key_id, then, later, seq, is_same in rows
    ]
