"""Remarks on a query: names that the store does not have, and words that are names. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from sessions_app.search.query.completion import Vocabulary
from sessions_app.search.query.terms import Field, Query, StateTerm, Term, When, Word, canonical_value
from sessions_app.store import scopes

Name = tuple[str, str]
"""The name's kind, such as `tool`, and the name."""

NAME_TERMS = ("app", "user", "tool", "author", "tag", "key")
"""Terms whose values are names in the store."""

INDEXED_TERMS = ("tool", "author")
"""Terms whose names are read from the indexes, which new events enter within a second."""

CLOSENESS = 0.65
"""Minimum similarity of a suggested name, from 0 to 1 (`difflib`)."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark on a part of a query. `suggestion` is the whole corrected query, or empty."""

    message: str
    suggestion: str = ""


def names_in(query: Query, *, only_negative: bool = False) -> list[Name]:
    """Return the names in a query.

    Args:
        query: the query.
        only_negative: only names in terms that match where nothing has the name, such as `-tool:look` or
            `order_id missing`: a misspelt name goes unnoticed there.
    """
    names = [_name_in(term) for term in query.terms if not only_negative or _holds_without_name(term)]
    return [name for name in names if name]


def remark_unknown_names(query: Query, vocabulary: Vocabulary, unknown: Collection[Name]) -> list[Remark]:
    """Return remarks on the unknown names in a query, with the most similar name of the vocabulary."""
    remarks = []
    for position, term in enumerate(query.terms):
        name = _name_in(term)
        if name is not None and name in unknown:
            remarks.append(_unknown_name_remark(query, position, name, vocabulary))
    return remarks


def remark_names(query: Query, vocabulary: Vocabulary) -> list[Remark]:
    """Return remarks on words that are names, with the terms that match these."""
    return [
        Remark(f"{word.text[:80]!r} is {what}.", _with_term(query, position, suggestion))
        for position, word in enumerate(query.terms)
        if isinstance(word, Word)
        for what, suggestion in _terms_named(word, vocabulary)
    ]


def remark_word_starts(query: Query, starts: Collection[Word]) -> list[Remark]:
    """Return remarks on words that no text contains whole, with the terms that find words beginning so."""
    return [
        Remark(
            f"No text has the whole word {word.text[:80]!r}, but longer words begin with it.",
            _with_term(query, position, replace(word, is_prefix=True)),
        )
        for position, word in enumerate(query.terms)
        if isinstance(word, Word) and word in starts
    ]


def remark_other_case(query: Query, spellings: Mapping[StateTerm, str]) -> list[Remark]:
    """Return remarks on values that only exist in another case, with the terms that match these."""
    return [
        Remark(
            f"The value of {term.name[:80]!r} is written {spellings[term][:80]!r}.",
            _with_term(query, position, replace(term, value=spellings[term])),
        )
        for position, term in enumerate(query.terms)
        if isinstance(term, StateTerm) and term in spellings
    ]


_KINDS = {
    "app": "an app",
    "user": "a user",
    "tool": "a tool",
    "author": "an author of events",
    "tag": "a tag",
    "is": "a value of is:",
    "kind": "a kind of event",
}


def _terms_named(word: Word, vocabulary: Vocabulary) -> Iterator[tuple[str, Term]]:
    """Yield what a word names, in words, and the term that matches it."""
    if word.text in vocabulary.keys:
        yield "a state key", StateTerm(*scopes.split_scope(word.text), when=When.EVER, negated=word.negated)
    for name, what in _KINDS.items():
        value = canonical_value(name, word.text)
        if value in vocabulary.of(name):
            yield what, Field(name, value, negated=word.negated)


def _holds_without_name(term: Term) -> bool:
    is_turned = isinstance(term, StateTerm) and term.when in (When.MISSING, When.NEVER)
    return term.negated != is_turned


def _name_in(term: Term) -> Name | None:
    if isinstance(term, StateTerm):
        return "key", term.name
    if isinstance(term, Field) and term.name in NAME_TERMS:
        return term.name, term.value
    return None


def _unknown_name_remark(query: Query, position: int, name: Name, vocabulary: Vocabulary) -> Remark:
    kind, text = name
    what = "No state has a key" if kind == "key" else f"No session has the {kind}"
    if kind in INDEXED_TERMS:
        what = f"No indexed session has the {kind}"
    close = _closest_name(text, vocabulary.of(kind))
    if not close:
        return Remark(f"{what} {text[:80]!r}.")
    suggestion = _with_name(query.terms[position], close)
    return Remark(f"{what} {text[:80]!r}: did you mean {close!r}?", _with_term(query, position, suggestion))


def _closest_name(text: str, names: Iterable[str]) -> str:
    """Return the most similar name, ignoring case and a key's prefix, or an empty string."""
    by_form = {form: name for name in names for form in (name.rpartition(":")[2].casefold(), name.casefold())}
    for form in (text.casefold(), text.rpartition(":")[2].casefold()):
        if close := get_close_matches(form, by_form, 1, CLOSENESS):
            return by_form[close[0]]
    return ""


def _with_name(term: Term, name: str) -> Term:
    if isinstance(term, StateTerm):
        scope, key = scopes.split_scope(name)
        return replace(term, scope=scope, key=key)
    return replace(term, value=name) if isinstance(term, Field) else term


def _with_term(query: Query, position: int, term: Term) -> str:
    return str(Query((*query.terms[:position], term, *query.terms[position + 1 :])))
