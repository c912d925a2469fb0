"""The names that queries can refer to: apps, users, tools, authors, tags and state keys.

Reads are bounded: a skip scan of an index takes one seek a name, however many sessions have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from django.db import connection

from sessions_app import scopes
from sessions_app.lookup import list_apps_with_sessions
from sessions_app.models import AgentSession, Scope, SessionTag, SessionTrait, StateValue
from sessions_app.search import event_index, index_backlog
from sessions_app.search.query import CaretWord, Name, Vocabulary

MOST_NAMES = 300
"""Maximum names of a kind, in sorted order."""

NEWEST_SESSIONS = 1_000
"""Newest sessions whose users are read."""

ID_LENGTH, MOST_IDS = 6, 5
"""Minimum length of a text that could be an id, and how many such texts are looked up."""

MOST_COMPLETIONS = 12
"""Maximum names looked up by the typed prefix."""

_NAMES = """
WITH RECURSIVE names(name, number) AS (
    SELECT min({column}), 1 FROM {table} WHERE {fixed} = %(value)s AND {column} >= %(start)s
    UNION ALL
    SELECT (SELECT min({column}) FROM {table} WHERE {fixed} = %(value)s AND {column} > names.name), number + 1
    FROM names WHERE names.name IS NOT NULL AND number < %(most)s
)
SELECT name FROM names WHERE name IS NOT NULL
"""

_TRAITS = _NAMES.format(table="sessions_app_sessiontrait", column="value", fixed="name")
_KEYS = _NAMES.format(table="sessions_app_statevalue", column="key_id", fixed="scope")
_USERS = _NAMES.format(table="sessions_app_agentsession", column="user_id", fixed="realm = '' AND app_name")


def read_vocabulary(texts: Iterable[str] = ()) -> Vocabulary:
    """Return the names that are indexed, and which of the texts are ids.

    Nine queries, and two for each text that could be an id.
    """
    ids = [(scope, key_id) for scope in Scope for key_id in _distinct_names(_KEYS, str(scope))]
    keys = [scopes.PREFIX[scope] + key for scope, key in ids if not key.startswith(scopes.HASH_PREFIX)]
    return Vocabulary(
        apps=list_apps_with_sessions(),
        users=_newest_users(),
        tools=_distinct_names(_TRAITS, SessionTrait.Name.TOOL),
        authors=_distinct_names(_TRAITS, SessionTrait.Name.AUTHOR),
        tags=list(SessionTag.objects.order_by("name").values_list("name", flat=True).distinct()[:MOST_NAMES]),
        keys=keys,
        ids=_find_ids(texts),
        is_whole=not index_backlog.has_any(),
    )


def vocabulary_at(spot: CaretWord) -> Vocabulary:
    """Return the vocabulary, extended by the stored names that begin with the word at the caret."""
    vocabulary = read_vocabulary()
    if not spot.typed:
        return vocabulary
    if spot.name == "tool":
        return replace(
            vocabulary,
            tools=[*vocabulary.tools, *_names_with_prefix(_TRAITS, SessionTrait.Name.TOOL, spot.typed)],
        )
    if spot.name == "author":
        more = _names_with_prefix(_TRAITS, SessionTrait.Name.AUTHOR, spot.typed)
        return replace(vocabulary, authors=[*vocabulary.authors, *more])
    if spot.name == "user":
        users = {name for app in vocabulary.apps for name in _names_with_prefix(_USERS, app, spot.typed)}
        vocabulary = replace(vocabulary, users=[*vocabulary.users, *sorted(users)])
    return replace(vocabulary, keys=[*vocabulary.keys, *_keys_with_prefix(spot)])


def _keys_with_prefix(spot: CaretWord) -> list[str]:
    """Return state keys that begin with the typed text; in the value of a `user:` or `app:` term without the prefix."""
    name = spot.typed if spot.name in ("", "key") else f"{spot.name}:{spot.typed}"
    try:
        scope, key = scopes.scope_of(name)
    except ValueError:  # a temp: key, which is not stored
        return []
    key_ids = _names_with_prefix(_KEYS, scope, key)
    return [scopes.PREFIX[scope] + key_id for key_id in key_ids if not key_id.startswith(scopes.HASH_PREFIX)]


def _names_with_prefix(statement: str, value: str, typed: str) -> list[str]:
    return [
        name for name in _distinct_names(statement, value, typed, MOST_COMPLETIONS) if name.startswith(typed)
    ]


def existing_names(names: Iterable[Name]) -> set[Name]:
    """Return which names of a query exist, also beyond `read_vocabulary`. One seek a name."""
    return {(kind, name) for kind, name in names if _EXISTENCE_CHECKS[kind](name)}


def _has_user(name: str) -> bool:
    return AgentSession.objects.filter(
        realm="", app_name__in=list_apps_with_sessions(), user_id=name
    ).exists()


def _has_key(name: str) -> bool:
    try:
        scope, key = scopes.scope_of(name)
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


def _find_ids(texts: Iterable[str]) -> dict[str, str]:
    """Return the texts that are ids of events or invocations, each with the name of the term that matches it."""
    possible = [text for text in texts if len(text) >= ID_LENGTH and any(map(str.isdigit, text))]
    return {
        text: field
        for text in possible[:MOST_IDS]
        for field in ("event", "invocation")
        if event_index.find_sessions(event_index.id_phrase(field, text), 1) != set()
    }


def _newest_users() -> list[str]:
    newest = AgentSession.objects.filter(realm="").order_by("-updated_at", "-pk")
    return sorted(set(newest.values_list("user_id", flat=True)[:NEWEST_SESSIONS]))[:MOST_NAMES]


def _distinct_names(statement: str, value: str, start: str = "", most: int | None = None) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(statement, {"value": str(value), "start": start, "most": most or MOST_NAMES})
        return [row[0] for row in cursor.fetchall()]
