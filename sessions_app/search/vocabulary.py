"""The names that queries can refer to: apps, users, tools, authors, tags and state keys.

Reads are bounded: a skip scan of an index takes one seek a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from sessions_app.lookup import list_apps_with_sessions
from sessions_app.search.query.completion import Vocabulary
from sessions_app.search.query.correction import Name
from sessions_app.search.query.parsing import MIN_PREFIX
from sessions_app.search.query.terms import Query, StateTerm, Word
from sessions_app.store import scopes
from sessions_app.store.database.json_sql import PREFIX_LENGTH, STRING
from sessions_app.store.database.skip_scan import distinct_values
from sessions_app.store.index import event_index
from sessions_app.store.models import AgentSession, Scope, SessionTag, SessionTrait, StateValue

MAX_NAMES = 300
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


def read_vocabulary(*, most: int = MAX_NAMES, newest: int = NEWEST_SESSIONS) -> Vocabulary:
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


def find_word_starts(query: Query) -> set[Word]:
    """Return the words of a query that no indexed text contains whole, while longer words begin with them."""
    return {word for word in query.words if not word.negated and _only_begins_words(word)}


def _only_begins_words(word: Word) -> bool:
    prefix = replace(word, is_prefix=True)
    return len(word.text) >= MIN_PREFIX and _has_phrase(prefix) and not _has_phrase(word)


def _has_phrase(word: Word) -> bool:
    return word.phrase is not None and event_index.find_sessions(word.phrase, 1) != set()


def find_other_spellings(query: Query) -> dict[StateTerm, str]:
    """Return, for terms whose text no value of their key equals, a value that differs only in upper and lower case."""
    spellings = {term: _find_other_spelling(term) for term in query.states if _compares_text(term)}
    return {term: spelling for term, spelling in spellings.items() if spelling}


def _compares_text(term: StateTerm) -> bool:
    is_short = isinstance(term.value, str) and len(term.value) < PREFIX_LENGTH
    return is_short and term.op == "=" and not term.path and not term.negated


def _find_other_spelling(term: StateTerm) -> str:
    """Return the value in another case, or an empty string if there is none or the value itself exists."""
    conditions = {"scope": str(term.scope), "key_id": scopes.key_id(term.key)}
    marks = distinct_values("sessions_app_statevalue", "mark", conditions, start=STRING, limit=MAX_NAMES)
    texts = [mark.removeprefix(STRING) for mark in marks if mark.startswith(STRING)]
    if term.value in texts:
        return ""
    return next((text for text in texts if text.casefold() == term.value.casefold()), "")


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
