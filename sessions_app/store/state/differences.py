"""The keys that differ between two points in time, with their writes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db import connection

from sessions_app.store import scopes
from sessions_app.store.models import AgentSession, Event, Scope, StateChange
from sessions_app.store.state import history
from sessions_app.store.state.counts import count_changed
from sessions_app.store.state.points import (
    BATCH,
    FROM_KEY,
    IS_SAME,
    KeyRef,
    PointPair,
    differing_keys_sql,
    writes_at_both,
)


@dataclass(frozen=True, slots=True)
class KeyDiff:
    """A key whose value differs between two points. `old` or `new` is None where it has no value.

    `write` is the last write up to the later point, possibly a removal.
    """

    scope: Scope
    key: str
    old: StateChange | None
    new: StateChange | None
    write: StateChange

    @property
    def name(self) -> str:
        """The key with its scope's prefix."""
        return scopes.PREFIX[self.scope] + self.key

    @property
    def change(self) -> str:
        """The kind of difference: added, changed or removed."""
        return "added" if self.old is None else "removed" if self.new is None else "changed"

    @property
    def is_hidden(self) -> bool:
        """Return whether only hidden credentials differ."""
        return self.old is not None and self.new is not None and self.old.value == self.new.value


@dataclass(frozen=True, slots=True)
class Diff:
    """The keys that differ between two points, in the order session, user, app, each sorted.

    Attributes:
        keys: all of them, or the first of each scope.
        counts: total number of each scope.
        following: the next `key_id` of a scope that has more.
    """

    keys: list[KeyDiff]
    counts: dict[Scope, int]
    following: dict[Scope, str]


def diff(
    session: AgentSession,
    before: Event | None,
    after: Event | None = None,
    *,
    limit: int = 0,
    begin: KeyRef | None = None,
) -> Diff:
    """Return the keys that differ between two events, in every scope. Keys rewritten with the same value are omitted.

    Two seeks a key, whatever the session's length; only values that are returned are read.

    Args:
        session: the session.
        before: the earlier event; None: the start, before the first event.
        after: the later event; None: now.
        limit: maximum number of keys of a scope; 0: all.
        begin: the first key to return of its scope; None: the first of all.
    """
    first = history.owners_at(session, before) if before else history.owners_at_start(session)
    points = PointPair(session, first, history.owners_at(session, after))
    differences = Diff([], {}, {})
    for scope in (Scope.SESSION, Scope.USER, Scope.APP):
        from_key = begin[1] if begin and begin[0] == scope else ""
        keys, differences.counts[scope], differences.following[scope] = _diff_scope(
            points, scope, limit, from_key
        )
        differences.keys.extend(keys)
    return differences


def _diff_scope(points: PointPair, scope: Scope, limit: int, begin: str) -> tuple[list[KeyDiff], int, str]:
    """Return the differing keys of a scope, their total number, and the next `key_id`."""
    if not points.has(scope) or points.is_one(scope):
        return [], 0, ""
    stored = points.count_keys(scope)
    which, limit_clause = FROM_KEY if begin else "", "LIMIT %(limit)s" if limit else ""
    with connection.cursor() as cursor:
        cursor.execute(
            f"{differing_keys_sql(stored)} SELECT keys.key_id, old.id, new.id {writes_at_both()} {_IS_DIFFERENT}"
            f" {which} ORDER BY keys.key_id {limit_clause}",
            {**points.params(scope), "limit": limit + 1, "begin": begin},
        )
        different = cursor.fetchall()
    following = different[limit][0] if limit and len(different) > limit else ""
    keys_read = _read_diffs(scope, [row[1:] for row in different[: limit or None]])
    number = len(keys_read)
    if following or begin:
        number = count_changed(points, scope, stored)
    return keys_read, number, following


_IS_DIFFERENT = f" AND CASE WHEN {IS_SAME} THEN 0 ELSE 1 END = 1"


def _read_diffs(scope: Scope, pairs: Sequence[tuple[int | None, int]]) -> list[KeyDiff]:
    """Read the differences of (old, new) pairs of ledger rows, sorted by key."""
    rows = _ledger_rows({pk for pair in pairs for pk in pair if pk is not None})
    diffs = [
        KeyDiff(scope, rows[new].key, _value_row(rows.get(old)), _value_row(rows[new]), rows[new])
        for old, new in pairs
    ]
    return sorted(diffs, key=lambda entry: entry.key)


def _ledger_rows(pks: Collection[int]) -> dict[int | None, StateChange]:
    ordered = sorted(pks)
    rows: dict[int | None, StateChange] = {}
    for start in range(0, len(ordered), BATCH):
        rows |= StateChange.objects.defer("private").in_bulk(ordered[start : start + BATCH])
    return rows


def _value_row(row: StateChange | None) -> StateChange | None:
    return None if row is None or row.removed else row
