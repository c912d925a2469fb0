"""What a query is made of, and the one form in which it is written. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sessions_app import scopes
from sessions_app.models import EventKind, Scope

OPERATORS = ("!=", ">=", "<=", "=", ">", "<", "~")
"""Longer ones first, as they are looked for."""

ORDERS = frozenset({">=", "<=", ">", "<"})
FOREIGN_OPERATORS = {"=>": ">=", "=<": "<=", "<>": "!="}
"""Comparisons of other languages, and what this one says for them."""

ARROW = "->"
"""Leads from a key to a path into its value."""

KINDS = tuple(EventKind.values)
ORIGINS = ("live", "import", "fork", "eval")
TRAITS = (
    "pinned",
    "error",
    "running",
    "waiting",
    "idle",
    "expired",
    "live",
    "imported",
    "forked",
    "eval",
)
"""What may stand behind `is:`."""

CLOSED_VALUES = {"kind": KINDS, "origin": ORIGINS, "is": TRAITS}
"""Terms whose values are known beforehand."""

TIMES = frozenset({"after", "before"})
AGES = frozenset({"updated", "created"})
MEASURES = frozenset({"events", "tokens", "errors", "duration"})
"""Terms that are a number compared."""

DESCRIPTIONS = {
    "app": "sessions of an app",
    "user": "sessions of a user; with a comparison, a key of the user's state",
    "session": "a session's id, or its start",
    "title": "words of the title",
    "tag": "sessions with a tag",
    "is": ", ".join(TRAITS),
    "origin": f"where a session comes from: {', '.join(ORIGINS)}",
    "kind": "with an event of this kind",
    "author": "with an event by this agent or user",
    "tool": "in which a tool was called",
    "error": "with this text in an error's code or message",
    "key": "in which an event wrote this key of the state",
    "event": "with the event of this id",
    "invocation": "with this invocation",
    "branch": "with events on this branch",
    "events": "number of events",
    "tokens": "number of tokens",
    "errors": "number of errors",
    "duration": "time from start to last event",
    "updated": "time since the last event",
    "created": "time since the start",
    "after": "last event at this time or later",
    "before": "last event before this time",
}
"""Name of every term → what it finds, for help and completion."""

ALIASES = {"agent": "author"}
FIELDS = frozenset(DESCRIPTIONS)
SHARED = frozenset({"user", "app"})
"""Prefixes of state keys that are names of terms too."""

CONNECTIVES = frozenset({"AND", "OR", "NOT"})
"""Words of other query languages, which are read as text in quotation marks only."""

_BARE_WORD = re.compile(r'(?!-)([^\s"=<>~!]|!(?!=))+')


class When(StrEnum):
    """At which times a state term holds."""

    NOW = "now"
    EVER = "ever"
    NEVER = "never"
    MISSING = "missing"


SUFFIXES = (When.EVER, When.MISSING, When.NEVER)


@dataclass(frozen=True, slots=True)
class Word:
    """Free text: a word, or a phrase whose words stand side by side."""

    text: str
    negated: bool = False

    def __str__(self) -> str:
        """Return the term as it is written."""
        return _negation(self.negated) + _write_text(self.text, of_word=True)


@dataclass(frozen=True, slots=True)
class Field:
    """A named term: `app:weather`, `events>100`, `updated:<2h`. `op` is `=` where none is written."""

    name: str
    value: str
    op: str = "="
    negated: bool = False

    def __str__(self) -> str:
        """Return the term as it is written."""
        if self.name in MEASURES:
            return f"{_negation(self.negated)}{self.name}{self.op}{self.value}"
        op = "" if self.op == "=" else self.op
        return f"{_negation(self.negated)}{self.name}:{op}{_write_text(self.value)}"


@dataclass(frozen=True, slots=True)
class StateTerm:
    """A key of the state, now or ever.

    Attributes:
        key: without its scope's prefix, matched whole.
        path: names and indexes into the value; empty: the value itself.
        op: how `value` is compared; empty: whether there is a value at all.
        value: a JSON value.
        when: with `MISSING` and no operator, the key has no value now.
    """

    scope: Scope
    key: str
    path: tuple[str | int, ...] = ()
    op: str = ""
    value: Any = None
    when: When = When.NOW
    negated: bool = False

    @property
    def name(self) -> str:
        """The key with its scope's prefix."""
        return scopes.PREFIX[self.scope] + self.key

    def __str__(self) -> str:
        """Return the term as it is written."""
        parts = [_negation(self.negated) + _write_key(self.name) + _write_path(self.path)]
        if self.op:
            parts += [self.op, _write_value(self.value)]
        if self.when is not When.NOW:
            parts.append(self.when)
        return " ".join(parts)


Term = Word | Field | StateTerm


@dataclass(frozen=True, slots=True)
class Query:
    """Terms that must all hold. `str` writes it in one form, which `parse` reads as the same query."""

    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        """Return the canonical text."""
        return " ".join(map(str, self.terms))

    @property
    def is_empty(self) -> bool:
        """Tell whether it asks for nothing in particular."""
        return not self.terms

    @property
    def words(self) -> tuple[Word, ...]:
        """The free words and phrases."""
        return tuple(term for term in self.terms if isinstance(term, Word))

    @property
    def fields(self) -> tuple[Field, ...]:
        """The named terms."""
        return tuple(term for term in self.terms if isinstance(term, Field))

    @property
    def states(self) -> tuple[StateTerm, ...]:
        """The terms about state."""
        return tuple(term for term in self.terms if isinstance(term, StateTerm))

    @property
    def wants_evals(self) -> bool:
        """Tell whether it asks for eval attempts, which lists hide unless asked."""
        asked = {("is", "eval"), ("origin", "eval")}
        return any((term.name, term.value) in asked and not term.negated for term in self.fields)


def _negation(negated: bool) -> str:
    return "-" if negated else ""


def quote(text: str) -> str:
    """Return a text in quotation marks."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def is_suffix(text: str) -> bool:
    """Tell whether a bare word says when a state term holds."""
    return text.lower() in SUFFIXES


def is_ambiguous(text: str) -> bool:
    """Tell whether a bare word would be read as something else than text, or refused."""
    name, colon, value = text.partition(":")
    is_named = name.lower() in FIELDS or name.lower() in ALIASES or looks_like_a_name(name, value)
    return is_suffix(text) or text in CONNECTIVES or bool(colon and is_named)


def tag_name(text: str) -> str:
    """Return a tag in its one spelling: in lower case, blanks run together."""
    return " ".join(text.casefold().split())


def canonical_value(name: str, value: str) -> str:
    """Return the value of a named term in its one spelling."""
    return tag_name(value) if name == "tag" else value


def looks_like_a_name(name: str, value: str) -> bool:
    """Tell whether a word with a colon was probably meant as a term: letters, then something other than an address."""
    return len(name) > 1 and name.isascii() and name.isalpha() and bool(value) and value[0] not in "/:\\"


def _write_text(text: str, *, of_word: bool = False) -> str:
    plain = _BARE_WORD.fullmatch(text) and not (of_word and is_ambiguous(text))
    return text if plain else quote(text)


def _write_key(name: str) -> str:
    bare = _BARE_WORD.fullmatch(name) and name.lower() not in MEASURES and not is_suffix(name)
    prefix, colon, rest = name.partition(":")
    known = prefix.lower() in FIELDS or prefix.lower() in ALIASES
    is_taken = colon and known and not (prefix in SHARED and rest)
    return name if bare and not is_taken else quote(name)


def _write_path(path: Iterable[str | int]) -> str:
    written = ""
    for step in path:
        if isinstance(step, int):
            written += f"[{step}]"
        else:
            bare = re.fullmatch(r'[^\s"=<>~!.\[\]-][^\s"=<>~!.\[\]]*', step)
            written += f"{'.' if written else ''}{step if bare else quote(step)}"
    return ARROW + written if written else ""


def _write_value(value: Any) -> str:
    if isinstance(value, str):
        return value if is_bare_string(value) else quote(value)
    return json.dumps(value, ensure_ascii=False)


def is_bare_string(text: str) -> bool:
    """Tell whether a value without quotation marks is read as this very string."""
    return (
        bool(text)
        and text[0] not in '"[{'
        and not any(char.isspace() for char in text)
        and text not in LITERALS
        and not NUMBER.fullmatch(text)
    )


LITERALS = {"true": True, "false": False, "null": None}
NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
