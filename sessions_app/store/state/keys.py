"""Keys with a value at one of two points in time: the first of a scope, and keys by id."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection

from sessions_app.store.models import Scope
from sessions_app.store.state.history import KEYS_FROM
from sessions_app.store.state.points import (
    BATCH,
    FROM_KEY,
    IS_SAME,
    LIKE,
    PointPair,
    like_params,
    matching_keys_sql,
    writes_at_both,
)


@dataclass(frozen=True, slots=True)
class KeyAt:
    """A key with a value at one of two points.

    Attributes:
        then, later: primary keys of the ledger rows with its values; None: no value.
        seq: seq of the session's event that wrote `then`; 0: another writer.
        is_same: whether it has the same value at both points.
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
    points: PointPair, begins: Mapping[Scope, str], limit: int = 0, like: str = ""
) -> dict[Scope, list[KeyAt]]:
    """Return the first keys of scopes that have a value at one of the points. One query, without a text.

    Args:
        points: the two points.
        begins: the scopes, and the `key_id` of each to begin with; empty: from the start.
        limit: maximum number of a scope, in the order of their names; 0: all.
        like: text that the prefixed name contains, ignoring case.
    """
    statements: list[str] = []
    params: dict[str, Any] = {}
    for scope, begin in begins.items():
        if not points.has(scope):
            continue
        keys, order = (
            (matching_keys_sql(points.count_keys(scope)), "ORDER BY keys.key_id") if like else (KEYS_FROM, "")
        )
        which = f"{LIKE if like else ''} {FROM_KEY if begin else ''}"
        query = f"{keys} {_KEYS} {writes_at_both()} {which} {order} {'LIMIT %(limit)s' if limit else ''}"
        of_scope = _PARAMETER.sub(rf"%({scope}_\1)s", query)
        statements.append(f"SELECT %({scope}_scope)s, part.* FROM ({of_scope}) AS part")  # noqa: S608 - pieces of our own
        named = {**points.params(scope), **like_params(scope, like), "limit": limit, "begin": begin}
        params |= {f"{scope}_{name}": value for name, value in named.items()}
    found: dict[Scope, list[KeyAt]] = {scope: [] for scope in begins}
    if statements:
        with connection.cursor() as cursor:
            cursor.execute(" UNION ALL ".join(statements), params)
            for scope, *columns in sorted(cursor.fetchall(), key=lambda row: row[1]):
                found[Scope(scope)].append(_key_at(Scope(scope), *columns))
    return found


_PARAMETER = re.compile(r"%\((\w+)\)s")
"""A named parameter of a statement."""


def keys_by_id(points: PointPair, scope: Scope, key_ids: Collection[str], like: str = "") -> list[KeyAt]:
    """Return those keys of a scope, by id, that have a value at one of the points; `like` as in `first_keys`."""
    if not points.has(scope):
        return []
    keys: list[KeyAt] = []
    ordered = sorted(key_ids)
    for start in range(0, len(ordered), BATCH):
        key_params = {f"key_{index}": key_id for index, key_id in enumerate(ordered[start : start + BATCH])}
        placeholders = ", ".join(f"(%({name})s)" for name in key_params)
        query = (
            f"WITH keys(key_id) AS (VALUES {placeholders}) {_KEYS} {writes_at_both()} {LIKE if like else ''}"
        )
        keys += _read_keys(scope, query, {**points.params(scope), **like_params(scope, like), **key_params})
    return keys


def _read_keys(scope: Scope, query: str, params: Mapping[str, Any]) -> list[KeyAt]:
    with connection.cursor() as cursor:
        cursor.execute(query, params)
        return [_key_at(scope, *row) for row in sorted(cursor.fetchall())]


def _key_at(scope: Scope, key_id: str, then: int | None, later: int | None, seq: int, is_same: int) -> KeyAt:
    return KeyAt(scope, key_id, then, later, seq, bool(is_same))
