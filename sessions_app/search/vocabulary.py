"""The names that queries can refer to: apps, users, tools, authors, tags and state keys.

Reads are bounded: a skip scan of an index takes one seek a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sessions_app.lookup import list_apps_with_sessions
from sessions_app.search.query.completion import Vocabulary
from sessions_app.search.query.correction import Name
from sessions_app.store import scopes
from sessions_app.store.database.skip_scan import distinct_values
from sessions_app.store.models import AgentSession, Scope, SessionTag, SessionTrait, StateValue

MOST_NAMES = 300
"""Maximum names of a kind, in sorted order."""

NEWEST_SESSIONS = 1_000
"""Newest sessions whose users are read."""

_TABLES: dict[str, tuple[str, str, dict[str, str]]] = {
    **{
        name: ("sessions_app_sessiontrait", "value", {"name": name}) for name in ("tool", "author", "problem")
    },
    **{scope: ("sessions_app_statevalue", "key_id", {"scope": str(scope)}) for scope in Scope},
}
"""Table, column and fixed column values for the names of tools and authors, and for the keys of each scope."""


def read_vocabulary(*, most: int = MOST_NAMES, newest: int = NEWEST_SESSIONS) -> Vocabulary:
    """Return the indexed names, at most `most` of a kind, and the users of the `newest` sessions. Nine queries."""
    keys = [
        key for scope in Scope for key in _prefixed_keys(scope, distinct_values(*_TABLES[scope], limit=most))
    ]
    return Vocabulary(
        apps=list_apps_with_sessions(),
        users=_newest_users(newest)[:most],
        tools=distinct_values(*_TABLES["tool"], limit=most),
        authors=distinct_values(*_TABLES["author"], limit=most),
        problems=distinct_values(*_TABLES["problem"], limit=most),
        tags=list(SessionTag.objects.order_by("name").values_list("name", flat=True).distinct()[:most]),
        keys=keys,
    )


def _prefixed_keys(scope: Scope, key_ids: Iterable[str]) -> list[str]:
    """Return keys with their prefixes, without keys that are too long to be indexed directly."""
    return [scopes.PREFIX[scope] + key for key in key_ids if not key.startswith(scopes.HASH_PREFIX)]


def existing_names(names: Iterable[Name]) -> set[Name]:
    """Return which names of a query exist, also beyond `read_vocabulary`. One seek a name."""
    return {(kind, name) for kind, name in names if _EXISTENCE_CHECKS[kind](name)}


def _has_user(name: str) -> bool:
    return AgentSession.objects.filter(
        realm="", app_name__in=list_apps_with_sessions(), user_id=name
    ).exists()


def _has_key(name: str) -> bool:
    try:
        scope, key = scopes.split_scope(name)
    except ValueError:  # a temp: key, which is not stored
        return False
    return StateValue.objects.filter(scope=scope, key_id=scopes.key_id(key)).exists()


def _has_trait(trait: str) -> Callable[[str], bool]:
    return lambda name: SessionTrait.objects.filter(name=trait, value=name).exists()


_EXISTENCE_CHECKS: dict[str, Callable[[str], bool]] = {
    "app": lambda name: name in list_apps_with_sessions(),
    "user": _has_user,
    "tool": _has_trait(SessionTrait.Name.TOOL),
    "author": _has_trait(SessionTrait.Name.AUTHOR),
    "tag": lambda name: SessionTag.objects.filter(name=name).exists(),
    "key": _has_key,
}


def _newest_users(sessions: int) -> list[str]:
    newest = AgentSession.objects.filter(realm="").order_by("-updated_at", "-pk")
    return sorted(set(newest.values_list("user_id", flat=True)[:sessions]))
