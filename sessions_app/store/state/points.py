"""A pair of points in time, and the SQL of queries over the keys of their scopes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sessions_app.store import scopes
from sessions_app.store.models import STATE_ROWS, AgentSession, Scope
from sessions_app.store.state.history import EVERY_KEY, Owners, join_last_write_sql

BATCH = 500
"""Keys, or ledger rows, named in one query."""

FEW_KEYS = 5_000
"""Keys of a scope up to which they are sought one behind the other; beyond, its writes are read from the index."""

KeyRef = tuple[Scope, str]
"""A key: its scope and `key_id`."""


@dataclass(frozen=True, slots=True)
class PointPair:
    """Two points in time of a session."""

    session: AgentSession
    then: Owners
    later: Owners

    def has(self, scope: Scope) -> bool:
        """Return whether anything was ever written to a scope."""
        return scope in self.later.ids

    def is_one(self, scope: Scope) -> bool:
        """Return whether nothing was written to a scope between the points."""
        return self.then.positions[scope] == self.later.positions[scope]

    def params(self, scope: Scope) -> dict[str, Any]:
        """Return the parameters of a query over a scope's keys."""
        return {
            "scope": str(scope),
            "owner": self.later.ids[scope],
            "then": self.then.positions[scope],
            "later": self.later.positions[scope],
            "session": self.session.pk,
            "no": False,
        }

    def count_keys(self, scope: Scope) -> int:
        """Return the number of keys that a scope has now."""
        return count_stored_keys(scope, self.later.ids[scope])


def _is_large(number: int) -> bool:
    """Return whether so many keys are too many to seek one behind the other."""
    return number > FEW_KEYS


def count_stored_keys(scope: Scope, owner_id: int) -> int:
    """Return the number of keys that an owner has now."""
    return STATE_ROWS[scope]._default_manager.filter(owner_id=owner_id).count()


# Common table expression `keys(key_id)`: the keys that a query reads

_KEYS_OF_WRITES = """
WITH keys AS (
    SELECT DISTINCT key_id FROM sessions_app_statechange
    WHERE scope = %(scope)s AND owner_id = %(owner)s {which}
)
"""

_WRITTEN = _KEYS_OF_WRITES.format(which="")

_WRITTEN_BETWEEN = _KEYS_OF_WRITES.format(which="AND position > %(then)s AND position <= %(later)s")

_WRITTEN_LIKE = _KEYS_OF_WRITES.format(which="AND lower(%(prefix)s || key) LIKE lower(%(like)s) ESCAPE '!'")


def written_keys_sql(scope: Scope, owner_id: int) -> str:
    """Return SQL for all keys that an owner ever had, like `history.EVERY_KEY`."""
    return _WRITTEN if _is_large(count_stored_keys(scope, owner_id)) else EVERY_KEY


def differing_keys_sql(stored: int) -> str:
    """Return SQL for the keys that may differ between the points, in a scope with so many keys."""
    return _WRITTEN_BETWEEN if _is_large(stored) else EVERY_KEY


def matching_keys_sql(stored: int) -> str:
    """Return SQL for the keys that may match `LIKE`, in a scope with so many keys."""
    return _WRITTEN_LIKE if _is_large(stored) else EVERY_KEY


# Their writes at both points: `old` and `new`

_HAS_VALUE = "keys.key_id IS NOT NULL AND (old.removed = %(no)s OR new.removed = %(no)s)"
"""Condition that a key has a value at one of the points."""


def writes_at_both() -> str:
    """Return SQL that joins the last writes up to both points, of keys with a value at one of them."""
    old, new = (join_last_write_sql(name, until) for name, until in (("old", "then"), ("new", "later")))
    return f"FROM keys {old} {new} WHERE {_HAS_VALUE}"


IS_SAME = """(
    old.removed = %(no)s AND new.removed = %(no)s
    AND (old.id = new.id OR COALESCE(old.private, old.value) = COALESCE(new.private, new.value))
)"""
"""Condition that a key has the same value at both points."""

FROM_KEY = " AND keys.key_id >= %(begin)s"
"""Condition that a key does not sort before `begin`."""

LIKE = " AND lower(%(prefix)s || COALESCE(old.key, new.key)) LIKE lower(%(like)s) ESCAPE '!'"
"""Condition that a key's prefixed name contains a text, ignoring case."""


def like_params(scope: Scope, like: str) -> dict[str, str]:
    """Return the parameters of `LIKE`; empty without a text."""
    if not like:
        return {}
    for sign in "!%_":
        like = like.replace(sign, f"!{sign}")
    return {"prefix": scopes.PREFIX[scope], "like": f"%{like}%"}
