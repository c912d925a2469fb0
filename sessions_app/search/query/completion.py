"""Completions of a query at the caret. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from sessions_app.search.query.terms import (
    AGES,
    ALIASES,
    CLOSED_VALUES,
    DESCRIPTIONS,
    MEASURES,
    PERIODS,
    TIMES,
    Field,
    StateTerm,
    When,
)
from sessions_app.store import scopes

MAX_COMPLETIONS = 12
"""Maximum completions offered at once."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names that a store has; state keys with their prefixes."""

    apps: Sequence[str] = ()
    users: Sequence[str] = ()
    tools: Sequence[str] = ()
    authors: Sequence[str] = ()
    problems: Sequence[str] = ()
    tags: Sequence[str] = ()
    keys: Sequence[str] = ()

    def of(self, name: str) -> Sequence[str]:
        """Return the possible values of a term."""
        return {
            "app": self.apps,
            "user": self.users,
            "tool": self.tools,
            "author": self.authors,
            "problem": self.problems,
            "tag": self.tags,
            "key": self.keys,
        }.get(name, CLOSED_VALUES.get(name, ()))


@dataclass(frozen=True, slots=True)
class Completion:
    """A replacement for `text[start:end]`.

    Attributes:
        text: the replacement.
        label: the label shown for it.
        kind: `term`, `value`, `key` or `comparison`.
        detail: its description.
    """

    start: int
    end: int
    text: str
    label: str
    kind: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CaretWord:
    """The word at the caret.

    Attributes:
        start, end: its offsets, without a minus sign before it.
        name: name of the term whose value is being typed; empty: none.
        typed: the part of the name, value or key before the caret.
        before: the word before it, after a space.
    """

    start: int
    end: int
    name: str = ""
    typed: str = ""
    before: str = ""


def word_at_caret(text: str, caret: int) -> CaretWord:
    """Return the word at the caret."""
    caret = max(0, min(caret, len(text)))
    start = _word_start(text, caret)
    end = caret
    while end < len(text) and not text[end].isspace():
        end += 1
    if text[start:end].startswith("-"):
        start += 1
    head = text[:start].rstrip()
    word = head[_word_start(head, len(head)) :]
    name, colon, value = text[start:caret].partition(":")
    name = ALIASES.get(name.lower(), name.lower())
    if colon and name in DESCRIPTIONS:
        return CaretWord(start, end, name, _remove_quotes(value), word)
    return CaretWord(start, end, "", _remove_quotes(text[start:caret]), word)


def complete(
    text: str, caret: int, vocabulary: Vocabulary, names: Collection[str] = DESCRIPTIONS.keys()
) -> list[Completion]:
    """Return the completions at the caret, most likely first; terms are limited to `names`."""
    caret_word = word_at_caret(text, caret)
    return list(
        islice(
            _drop_repeats(
                _iter_completions(caret_word, vocabulary, names), text[caret_word.start : caret_word.end]
            ),
            MAX_COMPLETIONS,
        )
    )


def _iter_completions(
    caret_word: CaretWord, vocabulary: Vocabulary, names: Collection[str]
) -> Iterator[Completion]:
    if caret_word.name:
        yield from _value_completions(caret_word, vocabulary)
        return
    if caret_word.before and _is_key(caret_word.before, vocabulary):
        yield from _comparison_completions(caret_word)
    if not caret_word.typed and caret_word.before and not caret_word.before.strip("=<>!~"):
        return
    yield from _term_completions(caret_word, names)
    if caret_word.typed:
        yield from _key_completions(caret_word, vocabulary.keys)


def _value_completions(caret_word: CaretWord, vocabulary: Vocabulary) -> Iterator[Completion]:
    for value in _matching_names(caret_word.typed, vocabulary.of(caret_word.name)):
        yield Completion(
            caret_word.start,
            caret_word.end,
            str(Field(caret_word.name, value)),
            value,
            "value",
            caret_word.name,
        )
    if caret_word.name in ("user", "app"):
        typed = f"{caret_word.name}:{caret_word.typed}"
        keys = [key for key in vocabulary.keys if key.startswith(f"{caret_word.name}:")]
        yield from _key_completions(CaretWord(caret_word.start, caret_word.end, "", typed), keys)
    for value in _EXAMPLES.get(caret_word.name, ()):
        if value.startswith(caret_word.typed):
            yield Completion(
                caret_word.start,
                caret_word.end,
                f"{caret_word.name}:{value}",
                value,
                "value",
                caret_word.name,
            )


_EXAMPLES = {
    **dict.fromkeys(AGES, ("<1h", "<1d", "<7d", ">30d")),
    **dict.fromkeys(TIMES, ("today", "yesterday", "7d")),
    **dict.fromkeys(PERIODS, ("today", "yesterday")),
}
"""Example values of terms about times."""


def _term_completions(caret_word: CaretWord, names: Collection[str]) -> Iterator[Completion]:
    for name in _matching_names(caret_word.typed.lower(), (name for name in DESCRIPTIONS if name in names)):
        mark = ">" if name in MEASURES else ":"
        yield Completion(
            caret_word.start, caret_word.end, name + mark, name + mark, "term", DESCRIPTIONS[name]
        )


def _key_completions(caret_word: CaretWord, keys: Iterable[str]) -> Iterator[Completion]:
    for key in _matching_names(caret_word.typed, keys):
        spelling = str(StateTerm(*scopes.split_scope(key), when=When.EVER)).removesuffix(" ever")
        yield Completion(caret_word.start, caret_word.end, spelling, key, "key", "state key")


_COMPARISONS = {
    "=": "equals, now",
    "!=": "is different",
    ">": "is greater than",
    "<": "is less than",
    "~": "contains",
    "ever": "had a value at some time",
    "missing": "has no value now",
    "never": "never had a value",
}


def _comparison_completions(caret_word: CaretWord) -> Iterator[Completion]:
    for op, detail in _COMPARISONS.items():
        if op.startswith(caret_word.typed.lower()):
            yield Completion(caret_word.start, caret_word.end, op, op, "comparison", detail)


def _is_key(word: str, vocabulary: Vocabulary) -> bool:
    return _remove_quotes(word.lstrip("-").partition("->")[0]) in vocabulary.keys


def _matching_names(typed: str, names: Iterable[str]) -> list[str]:
    """Return the names that begin with the typed text, then those that contain it."""
    folded = typed.casefold()
    matches = [name for name in names if folded in name.casefold()]
    return sorted(matches, key=lambda name: not name.casefold().startswith(folded))


def _drop_repeats(completions: Iterable[Completion], current: str) -> Iterator[Completion]:
    """Drop the current text, and repeated completions."""
    texts = {current}
    for completion in completions:
        if completion.text not in texts:
            texts.add(completion.text)
            yield completion


def _word_start(text: str, offset: int) -> int:
    """Return the start of the word that ends at `offset`; quoted spaces belong to it."""
    start, inside, index = 0, False, 0
    while index < offset:
        char = text[index]
        if char == "\\" and inside:
            index += 1
        elif char == '"':
            inside = not inside
        elif char.isspace() and not inside:
            start = index + 1
        index += 1
    return min(start, offset)


def _remove_quotes(text: str) -> str:
    return text.replace('\\"', '"').strip('"') if text.startswith('"') else text
