"""State scopes: key prefixes, canonical values and merging. Pure.

The rules are ADK's (`google/adk/sessions/state.py`, `_session_util.py`): a key's prefix names its scope, only the
first prefix is stripped, prefixes are case-sensitive, a dict replaces the old value and is never merged, None is a
value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pydantic_core import to_jsonable_python

from sessions_app.store.models import Scope
from sessions_app.store.redaction import redact, redact_text
from sessions_app.store.text_input import MAX_INT_BITS

APP_PREFIX = "app:"
USER_PREFIX = "user:"
TEMP_PREFIX = "temp:"
EVALUATION_KEY = "__llm_request_key__"
"""Key that ADK's evaluation writes anew into state and responses for each model call; it is not the agent's."""

PREFIX = {Scope.SESSION: "", Scope.USER: USER_PREFIX, Scope.APP: APP_PREFIX}

KEY_ID_BYTES = 200
"""Longest key, in UTF-8 bytes, that is indexed directly; longer keys are indexed by their hash."""

MAX_DEPTH = 100
"""Deepest nesting that is stored; every JSON parser supports it."""

DEEP, CYCLIC, RENAMED = "deep", "cyclic", "renamed"
ALTERED = frozenset({DEEP, CYCLIC, RENAMED})
"""Notes of values that lost what they held, and of keys whose names lost characters."""

_TOO_DEEP_MARK = f" nested deeper than {MAX_DEPTH} levels>"
_CYCLE_MARK = " that this is part of>"

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_dumps_strictly = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True, slots=True)
class CanonicalValue:
    """A state value in its canonical form, which the event, the state row and the ledger share.

    Attributes:
        data: the JSON value itself.
        public: its JSON text without credentials.
        private: its whole JSON text if `public` omits something, else None.
        note: why it differs from what the agent wrote (`bytes`, `NaN`, `Infinity`, …); empty if it does not. Notes of
            `ALTERED` come first.
    """

    data: Any
    public: str
    private: str | None
    note: str


@dataclass(frozen=True, slots=True)
class ScopedDelta:
    """A state delta split by scope; the prefixes are stripped.

    Attributes:
        renamed: the keys, with their prefixes, that cannot be stored as they were written, and how they were.
    """

    session: dict[str, Any]
    user: dict[str, Any]
    app: dict[str, Any]
    temp: dict[str, Any]
    renamed: dict[str, str]

    @property
    def changes(self) -> tuple[str, ...]:
        """Descriptions of the keys that were renamed."""
        return tuple(f"state key {raw!r}: stored as {key!r}" for key, raw in self.renamed.items())

    def canonical_values(self) -> Iterable[tuple[Scope, str, CanonicalValue]]:
        """Yield `sorted_keys` with canonical values, which note that a key was renamed."""
        for scope, key, value in self.sorted_keys():
            note = RENAMED if PREFIX[scope] + key in self.renamed else ""
            yield scope, key, canonicalize(value, key, note)

    def sorted_keys(self) -> Iterable[tuple[Scope, str, Any]]:
        """Yield (scope, key, value) of all stored keys in locking order: session, user, app, each sorted by key."""
        for scope, part in ((Scope.SESSION, self.session), (Scope.USER, self.user), (Scope.APP, self.app)):
            for key in sorted(part):
                yield scope, key, part[key]


def split_delta(delta: Mapping[str, Any]) -> ScopedDelta:
    """Split a state delta, or an initial state, by the scopes of its keys."""
    scoped = ScopedDelta({}, {}, {}, {}, {})
    for raw, value in delta.items():
        key = canonicalize_key(raw)
        if isinstance(raw, str) and key != raw:
            scoped.renamed[key] = raw
        if key.startswith(APP_PREFIX):
            scoped.app[key.removeprefix(APP_PREFIX)] = value
        elif key.startswith(USER_PREFIX):
            scoped.user[key.removeprefix(USER_PREFIX)] = value
        elif key.startswith(TEMP_PREFIX):
            scoped.temp[key.removeprefix(TEMP_PREFIX)] = value
        else:
            scoped.session[key] = value
    return scoped


def split_scope(key: str) -> tuple[Scope, str]:
    """Return the scope of a prefixed key and its name without the prefix.

    Raises:
        ValueError: the key is a `temp:` key, which is never stored.
    """
    if key.startswith(TEMP_PREFIX):
        raise ValueError(
            f"{key!r} is temporary: temp: keys exist during one invocation and are never stored."
        )
    if key.startswith(APP_PREFIX):
        return Scope.APP, key.removeprefix(APP_PREFIX)
    if key.startswith(USER_PREFIX):
        return Scope.USER, key.removeprefix(USER_PREFIX)
    return Scope.SESSION, key


def merge(session: Mapping[str, Any], user: Mapping[str, Any], app: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state that an agent reads: session, `app:` and `user:` keys, merged in ADK's order."""
    state = dict(session)
    state.update((APP_PREFIX + key, value) for key, value in app.items())
    state.update((USER_PREFIX + key, value) for key, value in user.items())
    return state


HASH_PREFIX = "\x1f"
"""Prefix of the id of a key that is too long to index directly."""


def key_id(key: str) -> str:
    """Return the indexed form of a key: the key itself, or its hash if it is too long."""
    if len(key.encode()) <= KEY_ID_BYTES:
        return key
    return HASH_PREFIX + sha256(key.encode()).hexdigest()


def canonicalize_key(key: Any) -> str:
    """Return a state key that the store can hold: text without NUL and lone surrogates."""
    return clean_text(key if isinstance(key, str) else _safe_text(key, str))


def is_clean(text: str) -> bool:
    """Tell whether a text column can hold a text unchanged."""
    return clean_text(text) == text


def clean_text(text: str) -> str:
    """Replace characters that text columns cannot hold (NUL, lone surrogates) by U+FFFD."""
    if "\x00" in text:
        text = text.replace("\x00", _REPLACEMENT)
    return replace_surrogates(text)


def clean_error(text: str) -> str:
    """Return an error text that a column can hold, without credentials."""
    return redact_text(clean_text(text))


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def canonicalize(value: Any, key: str = "", note: str = "") -> CanonicalValue:
    """Return the canonical form of a state value. Never raises: values that are not JSON become text, with a note.

    The key matters because some names mark credentials (`store.redaction`). `note`: a note beside those of the value.
    """
    notes = {note} if note else set()
    data, text = _canonicalize_value(value, notes.add)
    public = redact({key: data})[key]
    note = ",".join(sorted(notes, key=lambda note_name: (note_name not in ALTERED, note_name)))[:32]
    if public == data:
        return CanonicalValue(data, text, None, note)
    return CanonicalValue(data, dumps(public), text, note)


def to_jsonable(value: Any) -> Any:
    """Return the JSON form of any value, by the same rules as `canonicalize`."""
    return _canonicalize_value(value, lambda note: None)[0]


def has_cut_value(text: str) -> bool:
    """Tell whether a JSON text has a value that was cut off because it was nested too deeply, or inside itself."""
    return _TOO_DEEP_MARK in text or _CYCLE_MARK in text


def dumps(data: Any) -> str:
    """Return compact JSON text of a canonical value."""
    return _dumps(data)


def is_same_json(text: str, other: str) -> bool:
    """Tell whether two JSON texts have the same value; databases reorder keys."""
    return text == other or _sort_keys(text) == _sort_keys(other)


def dump_storable(data: Any) -> str:
    """Return compact JSON text that every store can hold and every parser reads.

    Raises:
        ValueError: `data` contains a value without such a form (see `to_jsonable`): NaN, a lone surrogate, an
            integer of thousands of digits, a cycle.
        RecursionError: `data` is nested too deeply.
    """
    text = _dumps_strictly(data)
    if not text.isascii():
        text.encode()
    return text


def _sort_keys(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)


def _canonicalize_value(value: Any, note: Callable[[str], None]) -> tuple[Any, str]:
    """Return the JSON form of a value and its text."""
    try:
        data = _to_jsonable(value, note)
    except _TooDeep:
        data = _to_bounded_jsonable(value, note, ())
    return data, dumps(data)


class _TooDeep(Exception):
    """A value is cyclic, or nested deeper than `MAX_DEPTH`."""


def _to_jsonable(value: Any, note: Callable[[str], None], depth: int = 0) -> Any:
    if value is None or value is True or value is False:
        return value
    kind = type(value)
    if kind is str:
        clean = replace_surrogates(value)
        if clean is not value and clean != value:
            note("surrogate")
        return clean
    if kind is int:
        return value if value.bit_length() < MAX_INT_BITS else _long_int(value, note)
    if kind is float:
        return value if math.isfinite(value) else _not_finite(value, note)
    if depth >= MAX_DEPTH:
        raise _TooDeep
    if kind is dict:
        return {name: _to_jsonable(item, note, depth + 1) for name, item in _string_items(value, note)}
    if kind is list:
        return [_to_jsonable(item, note, depth + 1) for item in value]
    return _from_python(value, note, depth)


def _to_bounded_jsonable(value: Any, note: Callable[[str], None], above: tuple[int, ...]) -> Any:
    """Return the JSON form of a cyclic or too deeply nested value, truncated at that point."""
    if type(value) not in (dict, list):
        return _leaf_json(value, note)
    if id(value) in above:
        note(CYCLIC)
        return f"<the {type(value).__name__}{_CYCLE_MARK}"
    if len(above) == MAX_DEPTH:
        note(DEEP)
        return f"<{type(value).__name__}{_TOO_DEEP_MARK}"
    inner = (*above, id(value))
    if isinstance(value, dict):
        return {name: _to_bounded_jsonable(item, note, inner) for name, item in _string_items(value, note)}
    return [_to_bounded_jsonable(item, note, inner) for item in value]


def _leaf_json(value: Any, note: Callable[[str], None]) -> Any:
    try:
        return _to_jsonable(value, note)
    except _TooDeep:
        note(DEEP)
        return _safe_text(value, repr)


def _string_items(value: dict[Any, Any], note: Callable[[str], None]) -> Iterable[tuple[str, Any]]:
    """Yield a dict's items by JSON keys."""
    if not all(type(key) is str for key in value):
        note("key")
    for key, item in value.items():
        text = key if isinstance(key, str) else _safe_text(key, str)
        clean = replace_surrogates(text)
        if clean != text:
            note("surrogate")
        yield clean, item


def _long_int(value: int, note: Callable[[str], None]) -> str:
    """Return a long integer in hexadecimal. Python and most parsers refuse decimals of more than 4,300 digits."""
    note("int")
    return hex(value)


def _not_finite(value: float, note: Callable[[str], None]) -> str:
    name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    note(name)
    return name


def _from_python(value: Any, note: Callable[[str], None], depth: int) -> Any:
    """Convert a value that is not a JSON type as pydantic does, otherwise to text."""
    note("bytes" if isinstance(value, bytes | bytearray | memoryview) else type(value).__name__[:12])
    if isinstance(value, memoryview):
        value = bytes(value)
    try:
        plain = to_jsonable_python(
            value, by_alias=True, bytes_mode="base64", inf_nan_mode="strings", fallback=repr
        )
    except Exception:
        return _safe_text(value, repr)
    return _to_jsonable(plain, note, depth) if type(plain) is not type(value) else _safe_text(value, repr)


def _safe_text(value: Any, form: Callable[[Any], str]) -> str:
    """Return a value's `str` or `repr`; its type's name if that raises."""
    try:
        return replace_surrogates(form(value))
    except Exception:
        return f"<{type(value).__name__}>"
