"""The keys that differ between two moments, with what was written at each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db import connection

from sessions_app import scopes
from sessions_app.models import AgentSession, Event, Scope, StateChange
from sessions_app.state import history
from sessions_app.state.diff.counts import count_changed
from sessions_app.state.diff.points import (
    BATCH,
    FROM_KEY,
    IS_SAME,
    KeyRef,
    PointPair,
    differing_keys_sql,
    is_large,
    writes_at_both,
)
from sessions_app.state.history import KEYS_FROM


@dataclass(frozen=True, slots=True)
class KeyDiff:
    """A key whose value differs between two moments. `old` or `new` is None where it has no value.

    `write` is the last write of the later moment, a removal too.
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
        """What became of it: added, changed or removed."""
        return "added" if self.old is None else "removed" if self.new is None else "changed"

    @property
    def is_hidden(self) -> bool:
        """Tell whether only credentials differ, which are not shown."""
        return self.old is not None and self.new is not None and self.old.value == self.new.value


@dataclass(frozen=True, slots=True)
class Diff:
    """The keys that differ between two moments, in the order session, user, app, each sorted.

    Attributes:
        keys: all of them, or the first of each scope.
        counts: how many each scope has in all.
        following: the `key_id` after the keys of a scope that has more.
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
    """Return the keys that differ between two events, in every scope. Keys written again as they were are left out.

    Two seeks a key, whatever the length of the session, and values of what is returned alone.

    Args:
        session: whose state it is.
        before: the earlier event; None: the start, that is what the first event found.
        after: the later event; None: now.
        limit: how many keys of a scope are returned; 0: all.
        begin: the key with which those of its scope begin; None: the first.
    """
    first = history.owners_at(session, before) if before else history.owners_at_start(session)
    moments = PointPair(session, first, history.owners_at(session, after))
    found = Diff([], {}, {})
    for scope in (Scope.SESSION, Scope.USER, Scope.APP):
        from_key = begin[1] if begin and begin[0] == scope else ""
        keys, found.counts[scope], found.following[scope] = _diff_scope(moments, scope, limit, from_key)
        found.keys.extend(keys)
    return found


def _diff_scope(moments: PointPair, scope: Scope, limit: int, begin: str) -> tuple[list[KeyDiff], int, str]:
    """Return the keys of a scope that differ, how many there are in all, and the `key_id` of the one that follows."""
    if not moments.has(scope) or moments.is_one(scope):
        return [], 0, ""
    stored = moments.stored(scope)
    are_far_apart = bool(limit) and is_large(stored) and moments.are_far_apart(scope)
    # Of many that differ the first ones are soon found by going from key to key.
    keys, order = (KEYS_FROM, "") if are_far_apart else (differing_keys_sql(stored), "ORDER BY keys.key_id")
    which, most = FROM_KEY if begin else "", "LIMIT %(limit)s" if limit else ""
    with connection.cursor() as cursor:
        cursor.execute(
            f"{keys} SELECT keys.key_id, old.id, new.id {writes_at_both()} {_IS_DIFFERENT} {which} {order} {most}",
            {**moments.given(scope), "limit": limit + 1, "begin": begin},
        )
        different = cursor.fetchall()
    following = different[limit][0] if limit and len(different) > limit else ""
    found = _read_diffs(scope, [row[1:] for row in different[: limit or None]])
    number = len(found)
    if following or begin:
        number = count_changed(moments, scope, stored, are_far_apart=are_far_apart)
    return found, number, following


_IS_DIFFERENT = f" AND CASE WHEN {IS_SAME} THEN 0 ELSE 1 END = 1"


def _read_diffs(scope: Scope, pairs: Sequence[tuple[int | None, int]]) -> list[KeyDiff]:
    """Return keys by their last writes at both moments, sorted."""
    rows = _ledger_rows({pk for pair in pairs for pk in pair if pk is not None})
    found = [
        KeyDiff(scope, rows[new].key, _value_row(rows.get(old)), _value_row(rows[new]), rows[new])
        for old, new in pairs
    ]
    return sorted(found, key=lambda entry: entry.key)


def _ledger_rows(pks: Collection[int]) -> dict[int | None, StateChange]:
    ordered = sorted(pks)
    found: dict[int | None, StateChange] = {}
    for start in range(0, len(ordered), BATCH):
        found |= StateChange.objects.defer("private").in_bulk(ordered[start : start + BATCH])
    return found


def _value_row(row: StateChange | None) -> StateChange | None:
    return None if row is None or row.removed else row
