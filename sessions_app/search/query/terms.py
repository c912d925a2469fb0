"""The terms of a query, and their canonical text. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sessions_app.store import scopes
from sessions_app.store.database import tokens
from sessions_app.store.events.kinds import EventKind
from sessions_app.store.models import LOG_LEVELS, EventJudgement, Scope

OPERATORS = ("!=", ">=", "<=", "=", ">", "<", "~")
"""Longer ones first, because the first match is taken."""

ORDERS = frozenset({">=", "<=", ">", "<"})

PREFIX_MARK = "*"
"""Ends a word of which only the start is known."""

ARROW = "->"
"""Separates a key from a path into its value."""

ORIGINS = ("live", "import", "fork", "trace", "eval")
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
    "traced",
    "eval",
)
"""Values of `is:`."""

NOT_JUDGED = "none"
JUDGEMENTS = (EventJudgement.Verdict.GOOD.value, EventJudgement.Verdict.BAD.value, NOT_JUDGED)
"""Values of `judged:`."""

CLOSED_VALUES = {
    "kind": tuple(kind.value for kind in EventKind),
    "origin": ORIGINS,
    "is": TRAITS,
    "level": tuple(LOG_LEVELS),
    "judged": JUDGEMENTS,
}
"""Terms with a closed set of values."""

TIMES = frozenset({"after", "before"})
PERIODS = frozenset({"during"})
AGES = frozenset({"updated", "created"})
MEASURES = frozenset({"events", "tokens", "errors", "problems", "duration"})
"""Terms that compare a number."""

DESCRIPTIONS = {
    "app": "sessions of an app",
    "user": "sessions of a user; with a comparison, a key of user state",
    "session": "a session's id, or its start",
    "title": "words of the title",
    "tag": "sessions with a tag",
    "judged": "with an event that a person judged good or bad; none: nobody has judged one",
    "is": ", ".join(TRAITS),
    "origin": f"where a session comes from: {', '.join(ORIGINS)}",
    "kind": "with an event of this kind",
    "author": "with an event by this agent or user",
    "tool": "in which a tool was called",
    "error": "with this text in an error's code or message",
    "problem": "with a problem of this code",
    "log": "with this text in a log record or a printed line",
    "level": "with a log record of this level or a higher one",
    "key": "in which an event wrote this state key",
    "event": "with the event of this id",
    "invocation": "with this invocation",
    "branch": "with events on this branch",
    "model": "with a recorded call of this model",
    "code": "with a run of this code version or git revision, or its start",
    "during": "with a recorded invocation on this day or in this hour",
    "events": "number of events",
    "tokens": "number of tokens",
    "errors": "number of errors",
    "problems": "number of problems",
    "duration": "time from start to last event",
    "updated": "time since the last event",
    "created": "time since the start",
    "after": "last event at this time or later",
    "before": "last event before this time",
}
"""Description of every term, for help and completion."""

EXAMPLES = {
    'sunny "no such city"': "words and phrases in messages, tool arguments and results, titles and ids",
    "weath*": "words that begin with these letters",
    "tool:get_weather -is:error": "sessions that called a tool and have no error",
    "tokens>10000 updated:<2h": "comparisons of numbers and times",
    "user:tier = gold": "the current value of a state key",
    "user:tier = gold ever": "a value at any time; with `never` instead, sessions in which the key never had it",
    "order_id missing": "sessions without the key",
    "retries > 3 ever": "a key that was above 3",
    "cart->items[0].sku = A7": "a path into a value; the key before `->` must match completely",
    "user:ann": "without a comparison: the sessions of a user",
}
"""Queries that show what can be searched, for help."""

ALIASES = {"agent": "author"}
FIELDS = frozenset(DESCRIPTIONS)
SHARED = frozenset({"user", "app"})
"""Prefixes of state keys that are also names of terms."""

CONNECTIVES = frozenset({"AND", "OR", "NOT"})
"""Operators of other query languages, which are accepted as text only in quotation marks."""

_BARE_WORD = re.compile(r'(?!-)([^\s"=<>~!]|!(?!=))+')


class When(StrEnum):
    """The time at which a state term must match."""

    NOW = "now"
    EVER = "ever"
    NEVER = "never"
    MISSING = "missing"


SUFFIXES = (When.EVER, When.MISSING, When.NEVER)


@dataclass(frozen=True, slots=True)
class Word:
    """Free text: a word, or a phrase of adjacent words. With `is_prefix` the last word is only its start: `weath*`."""

    text: str
    negated: bool = False
    is_prefix: bool = False

    @property
    def phrase(self) -> tokens.Phrase | None:
        """The phrase for the index; None if the text contains no letter or digit."""
        return tokens.parse_phrase(self.text, is_prefix=self.is_prefix)

    def __str__(self) -> str:
        """Return the term as it is written."""
        text = _write_text(self.text, of_word=True)
        return _negation_sign(self.negated) + text + (PREFIX_MARK if self.is_prefix else "")


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
            return f"{_negation_sign(self.negated)}{self.name}{self.op}{self.value}"
        op = "" if self.op == "=" else self.op
        return f"{_negation_sign(self.negated)}{self.name}:{op}{_write_text(self.value)}"


@dataclass(frozen=True, slots=True)
class StateTerm:
    """A key of the state, at present or ever.

    Attributes:
        key: without its scope's prefix, matched whole.
        path: names and indexes into the value; empty: the whole value.
        op: the comparison with `value`; empty: whether there is a value.
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
        parts = [_negation_sign(self.negated) + _write_key(self.name) + _write_path(self.path)]
        if self.op:
            parts += [self.op, _write_value(self.value)]
        if self.when is not When.NOW:
            parts.append(self.when)
        return " ".join(parts)


Term = Word | Field | StateTerm


@dataclass(frozen=True, slots=True)
class Query:
    """Terms that must all match. `str` gives the canonical text, which `parse` reads as the same query."""

    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        """Return the canonical text."""
        return " ".join(map(str, self.terms))

    @property
    def is_empty(self) -> bool:
        """Return whether it has no terms."""
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
        """Return whether it asks for eval attempts, which lists hide by default."""
        return self._names_origin("eval", "eval")

    @property
    def wants_traced(self) -> bool:
        """Return whether it asks for sessions that are read out of traces, which lists hide by default."""
        return self._names_origin("traced", "trace")

    def _names_origin(self, trait: str, origin: str) -> bool:
        """Return whether a term asks for sessions of an origin, by its trait or its name."""
        terms = {("is", trait), ("origin", origin)}
        return any((term.name, term.value) in terms and not term.negated for term in self.fields)


def _negation_sign(negated: bool) -> str:
    return "-" if negated else ""


def quote(text: str) -> str:
    """Return a text in quotation marks, escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def is_suffix(text: str) -> bool:
    """Return whether a bare word is a time suffix of a state term."""
    return text.lower() in SUFFIXES


def is_ambiguous(text: str) -> bool:
    """Return whether a bare word would not be read as text."""
    name, colon, value = text.partition(":")
    is_named = name.lower() in FIELDS or name.lower() in ALIASES or looks_like_a_name(name, value)
    return is_suffix(text) or text in CONNECTIVES or bool(colon and is_named)


def tag_name(text: str) -> str:
    """Return the canonical form of a tag: lower case, single spaces."""
    return " ".join(text.casefold().split())


def canonical_value(name: str, value: str) -> str:
    """Return the canonical value of a named term."""
    return tag_name(value) if name == "tag" else value


def looks_like_a_name(name: str, value: str) -> bool:
    """Return whether a word with a colon was probably meant as a term: letters, then a value that is no address."""
    return len(name) > 1 and name.isascii() and name.isalpha() and bool(value) and value[0] not in "/:\\"


def _write_text(text: str, *, of_word: bool = False) -> str:
    plain = _BARE_WORD.fullmatch(text) and not (
        of_word and (is_ambiguous(text) or text.endswith(PREFIX_MARK))
    )
    return text if plain else quote(text)


def _write_key(name: str) -> str:
    bare = _BARE_WORD.fullmatch(name) and name.lower() not in MEASURES and not is_suffix(name)
    prefix, colon, bare_key = name.partition(":")
    is_field = prefix.lower() in FIELDS or prefix.lower() in ALIASES
    is_taken = colon and is_field and not (prefix in SHARED and bare_key)
    return name if bare and not is_taken else quote(name)


def _write_path(path: Iterable[str | int]) -> str:
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            bare = re.fullmatch(r'[^\s"=<>~!.\[\]-][^\s"=<>~!.\[\]]*', step)
            text += f"{'.' if text else ''}{step if bare else quote(step)}"
    return ARROW + text if text else ""


def _write_value(value: Any) -> str:
    if isinstance(value, str):
        return value if is_bare_string(value) else quote(value)
    return json.dumps(value, ensure_ascii=False)


def is_bare_string(text: str) -> bool:
    """Return whether an unquoted value is read as this very string."""
    return (
        bool(text)
        and text[0] not in '"[{'
        and not any(char.isspace() for char in text)
        and text not in LITERALS
        and not NUMBER.fullmatch(text)
    )


LITERALS = {"true": True, "false": False, "null": None}
NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
