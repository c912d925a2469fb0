"""The keys of a session's scopes at two moments: the first of them, those that are named, those that differ, how many.

A scope may have a hundred thousand keys, of which a page shows some dozens: values are compared where they lie, and
what is not shown is counted there. Two values are the same when their JSON text is, which is written in one spelling
(`state.canonical`): 1 and 1.0 differ, as 1 and true do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, models

from sessions_app import history, state
from sessions_app.history import EVERY_KEY, KEYS_FROM, Owners, last_write
from sessions_app.models import (
    AgentSession,
    AppState,
    Event,
    Scope,
    SessionState,
    StateChange,
    StateRow,
    UserState,
)

STATE_ROWS: dict[Scope, type[StateRow]] = {
    Scope.SESSION: SessionState,
    Scope.USER: UserState,
    Scope.APP: AppState,
}

AT_ONCE = 500
"""Keys, or rows of the ledger, that a query names."""

FEW_KEYS = 5_000
"""Keys of a scope that are sought one behind the other; more are found by going through its writes in the index."""


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


@dataclass(frozen=True, slots=True)
class Moments:
    """Two moments of a session."""

    session: AgentSession
    then: Owners
    later: Owners

    def has(self, scope: Scope) -> bool:
        """Tell whether anything was ever written to a scope."""
        return scope in self.later.ids

    def is_one(self, scope: Scope) -> bool:
        """Tell whether nothing was written to a scope between them."""
        return self.then.positions[scope] == self.later.positions[scope]

    def given(self, scope: Scope) -> dict[str, Any]:
        """Return the parameters of a query over a scope's keys."""
        return {
            "scope": str(scope),
            "owner": self.later.ids[scope],
            "then": self.then.positions[scope],
            "later": self.later.positions[scope],
            "session": self.session.pk,
            "no": False,
            "yes": True,
        }


_LAST = {
    "sqlite": "LEFT JOIN sessions_app_statechange AS {name} ON {name}.id = {write}",
    "postgresql": "LEFT JOIN LATERAL (SELECT * FROM sessions_app_statechange WHERE id = {write}) AS {name} ON true",
}
"""The last write of each key up to a moment. PostgreSQL would read all of the ledger to join it to many keys."""

_HAD = "keys.key_id IS NOT NULL AND (old.removed = %(no)s OR new.removed = %(no)s)"
"""The condition that a key has a value at one of the moments."""

_IS_SAME = """(
    old.removed = %(no)s AND new.removed = %(no)s
    AND (old.id = new.id OR COALESCE(old.private, old.value) = COALESCE(new.private, new.value))
)"""

_KEYS = f"""
SELECT keys.key_id, CASE WHEN old.removed = %(no)s THEN old.id END, CASE WHEN new.removed = %(no)s THEN new.id END,
    CASE WHEN old.session_id = %(session)s THEN old.seq ELSE 0 END, CASE WHEN {_IS_SAME} THEN 1 ELSE 0 END
"""

_DIFFERENT = "SELECT keys.key_id, old.id, new.id"

_IS_DIFFERENT = f" AND CASE WHEN {_IS_SAME} THEN 0 ELSE 1 END = 1"

_HOW_MANY = f"""
SELECT count(CASE WHEN old.removed = %(no)s THEN 1 END), count(CASE WHEN new.removed = %(no)s THEN 1 END), count(*),
    count(CASE WHEN {_IS_SAME} THEN 1 END)
"""

_LIKE = " AND lower(%(prefix)s || COALESCE(old.key, new.key)) LIKE lower(%(like)s) ESCAPE '!'"

_FROM = " AND keys.key_id >= %(begin)s"

_KEYS_OF_WRITES = """
WITH keys AS (
    SELECT DISTINCT key_id FROM sessions_app_statechange
    WHERE scope = %(scope)s AND owner_id = %(owner)s {which}
)
"""

_WRITTEN_BETWEEN = _KEYS_OF_WRITES.format(which="AND position > %(then)s AND position <= %(later)s")
"""The keys that were written between two moments."""

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

_WENT_AGAIN = """
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

_ROWS_BETWEEN = """
SELECT count(*) FROM (
    SELECT 1 FROM sessions_app_statechange
    WHERE scope = %(scope)s AND owner_id = %(owner)s AND position > %(then)s AND position <= %(later)s
    LIMIT %(most)s
) AS written
"""

_EVERY_KEY_LIKE = _KEYS_OF_WRITES.format(which="AND lower(%(prefix)s || key) LIKE lower(%(like)s) ESCAPE '!'")


def keys_of(scope: Scope, owner_id: int) -> str:
    """Return SQL for the keys of an owner that were ever written, as `history.EVERY_KEY` has them."""
    return EVERY_KEY if _stored(scope, owner_id) <= FEW_KEYS else _KEYS_OF_WRITES.format(which="")


def first_keys(
    moments: Moments, scope: Scope, limit: int = 0, like: str = "", begin: str = ""
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
    given = {**moments.given(scope), **_like(scope, like), "limit": limit, "begin": begin}
    keys, order = (_keys_like(moments, scope), "ORDER BY keys.key_id") if like else (KEYS_FROM, "")
    which = f"{_LIKE if like else ''} {_FROM if begin else ''}"
    return _keys(
        scope, f"{keys} {_KEYS} {_at_both()} {which} {order} {'LIMIT %(limit)s' if limit else ''}", given
    )


def named_keys(moments: Moments, scope: Scope, key_ids: Collection[str], like: str = "") -> list[KeyAt]:
    """Return those of some keys of a scope that have a value at one of the moments; `like` as in `first_keys`."""
    if not moments.has(scope):
        return []
    found: list[KeyAt] = []
    ordered = sorted(key_ids)
    for start in range(0, len(ordered), AT_ONCE):
        named = {f"key_{at}": key_id for at, key_id in enumerate(ordered[start : start + AT_ONCE])}
        places = ", ".join(f"(%({name})s)" for name in named)
        query = f"WITH keys(key_id) AS (VALUES {places}) {_KEYS} {_at_both()} {_LIKE if like else ''}"
        found += _keys(scope, query, {**moments.given(scope), **_like(scope, like), **named})
    return found


def count(moments: Moments, scope: Scope, like: str = "") -> Counts:
    """Return how many keys of a scope there are at two moments, the later of which is now.

    Of very many keys only those are looked at that were written in between; where these are very many, too, the
    index of the ledger tells which are new since, and values are compared of the others alone.
    """
    if not moments.has(scope):
        return Counts(0, 0, 0)
    if like:
        then, _, either, same = _how_many(moments, scope, _keys_like(moments, scope), like)
        return Counts(then, either, either - same)
    stored = _stored(scope, moments.later.ids[scope])
    if moments.is_one(scope):
        return Counts(stored, stored, 0)
    if stored > FEW_KEYS and _are_many_between(moments, scope):
        return _count_of_many(moments, scope, stored)
    then, later, either, same = _how_many(moments, scope, _keys_between(stored))
    return Counts(stored - later + then, stored - later + either, either - same)


def _are_many_between(moments: Moments, scope: Scope) -> bool:
    """Tell whether there were more writes between the moments than values are compared of."""
    (found,) = _first_row(_ROWS_BETWEEN, {**moments.given(scope), "most": FEW_KEYS + 1})
    return found > FEW_KEYS


def _count_of_many(moments: Moments, scope: Scope, stored: int | None = None) -> Counts:
    """Count as `count` does, by the index of the ledger; what is changed at any two moments.

    Args:
        moments: when.
        scope: whose keys.
        stored: how many keys have a value at the later moment; None: only what is changed is wanted. Where as many
            have one as were ever written, none is gone.
    """
    given = moments.given(scope)
    ever, came, again = _first_row(_WRITES_OF_KEYS, given)
    if came and ever != stored:
        came -= _first_row(_WENT_AGAIN, given)[0]
    then, later, either, same = _how_many(moments, scope, _WRITTEN_AGAIN) if again else (0, 0, 0, 0)
    held = came + later if stored is None else stored
    return Counts(held - came - later + then, held - later + either, came + either - same)


def _keys(scope: Scope, query: str, given: Mapping[str, Any]) -> list[KeyAt]:
    with connection.cursor() as cursor:
        cursor.execute(query, given)
        rows = sorted(cursor.fetchall())
    return [
        KeyAt(scope, key_id, then, later, seq, bool(is_same)) for key_id, then, later, seq, is_same in rows
    ]


def _how_many(moments: Moments, scope: Scope, keys: str, like: str = "") -> Sequence[int]:
    query = f"{keys} {_HOW_MANY} {_at_both()} {_LIKE if like else ''}"
    return _first_row(query, {**moments.given(scope), **_like(scope, like)})


def _first_row(query: str, given: Mapping[str, Any]) -> Sequence[int]:
    with connection.cursor() as cursor:
        cursor.execute(query, given)
        row: Sequence[int] = cursor.fetchone()
        return row


def _at_both() -> str:
    """Return SQL for the last writes of each key up to both moments, of the keys that have a value at one of them."""
    last = _LAST[connection.vendor]
    old, new = (
        last.format(name=name, write=last_write(until)) for name, until in (("old", "then"), ("new", "later"))
    )
    return f"FROM keys {old} {new} WHERE {_HAD}"


def _like(scope: Scope, like: str) -> dict[str, str]:
    if not like:
        return {}
    for sign in "!%_":
        like = like.replace(sign, f"!{sign}")
    return {"prefix": state.PREFIX[scope], "like": f"%{like}%"}


def _stored(scope: Scope, owner_id: int) -> int:
    """Return how many keys of a scope have a value now."""
    rows: models.Manager[Any] = STATE_ROWS[scope]._default_manager
    return rows.filter(owner_id=owner_id).count()


def _keys_between(stored: int) -> str:
    """Return the keys that may differ between two moments, of a scope that has so many."""
    return EVERY_KEY if stored <= FEW_KEYS else _WRITTEN_BETWEEN


def _keys_like(moments: Moments, scope: Scope) -> str:
    few = _stored(scope, moments.later.ids[scope]) <= FEW_KEYS
    return EVERY_KEY if few else _EVERY_KEY_LIKE


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
        return state.PREFIX[self.scope] + self.key

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


Place = tuple[Scope, str]
"""A key by its scope and `key_id`."""


def diff(
    session: AgentSession,
    before: Event | None,
    after: Event | None = None,
    *,
    limit: int = 0,
    begin: Place | None = None,
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
    moments = Moments(session, first, history.owners_at(session, after))
    found = Diff([], {}, {})
    for scope in (Scope.SESSION, Scope.USER, Scope.APP):
        from_key = begin[1] if begin and begin[0] == scope else ""
        keys, found.counts[scope], found.following[scope] = _different(moments, scope, limit, from_key)
        found.keys.extend(keys)
    return found


def _different(moments: Moments, scope: Scope, limit: int, begin: str) -> tuple[list[KeyDiff], int, str]:
    """Return the keys of a scope that differ, how many there are in all, and the `key_id` of the one that follows."""
    if not moments.has(scope) or moments.is_one(scope):
        return [], 0, ""
    stored = _stored(scope, moments.later.ids[scope])
    are_many = bool(limit) and stored > FEW_KEYS and _are_many_between(moments, scope)
    # Of many that differ the first ones are soon found by going from key to key.
    keys, order = (KEYS_FROM, "") if are_many else (_keys_between(stored), "ORDER BY keys.key_id")
    which, most = _FROM if begin else "", "LIMIT %(limit)s" if limit else ""
    with connection.cursor() as cursor:
        cursor.execute(
            f"{keys} {_DIFFERENT} {_at_both()} {_IS_DIFFERENT} {which} {order} {most}",
            {**moments.given(scope), "limit": limit + 1, "begin": begin},
        )
        different = cursor.fetchall()
    following = different[limit][0] if limit and len(different) > limit else ""
    pairs = [row[1:] for row in different[: limit or None]]
    number = len(pairs)
    if are_many and (following or begin):
        number = _count_of_many(moments, scope).changed
    elif following or begin:
        _, _, either, same = _how_many(moments, scope, keys)
        number = either - same
    rows = _rows({pk for pair in pairs for pk in pair if pk is not None})
    found = [
        KeyDiff(scope, rows[new].key, _kept(rows.get(old)), _kept(rows[new]), rows[new]) for old, new in pairs
    ]
    return sorted(found, key=lambda entry: entry.key), number, following


def _rows(pks: Collection[int]) -> dict[int | None, StateChange]:
    ordered = sorted(pks)
    found: dict[int | None, StateChange] = {}
    for start in range(0, len(ordered), AT_ONCE):
        found |= StateChange.objects.defer("private").in_bulk(ordered[start : start + AT_ONCE])
    return found


def _kept(row: StateChange | None) -> StateChange | None:
    return None if row is None or row.removed else row
