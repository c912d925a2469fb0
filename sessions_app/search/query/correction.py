"""Remarks on a query that finds nothing: unknown names, and words that are names. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from sessions_app import scopes
from sessions_app.search.query.completion import Vocabulary
from sessions_app.search.query.suggestions import suggest_terms
from sessions_app.search.query.terms import NUMBER, Field, Query, StateTerm, Term, When, Word, canonical_value

Name = tuple[str, str]
"""The name's kind, such as `tool`, and the name."""

NAME_TERMS = ("app", "user", "tool", "author", "tag", "key")
"""Terms whose values are names in the store."""

INDEXED_TERMS = ("tool", "author", "key")
"""Terms whose names are read from the indexes."""


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


def remark_unknown_names(
    query: Query,
    vocabulary: Vocabulary,
    *,
    existing: Collection[Name] = (),
    names: Collection[Name] | None = None,
) -> list[Remark]:
    """Return remarks on the names in a query that the vocabulary does not have.

    Args:
        query: the query.
        vocabulary: the vocabulary of the store.
        existing: names in the query that exist besides.
        names: the names to remark on; None: all.
    """
    remarks = []
    for position, term in enumerate(query.terms):
        item = _name_in(term)
        if item is None or item in existing or (names is not None and item not in names):
            continue
        kind, name = item
        if name not in vocabulary.of(kind):
            remarks.append(_unknown_name_remark(query, position, kind, name, vocabulary))
    return remarks


def _holds_without_name(term: Term) -> bool:
    is_turned = isinstance(term, StateTerm) and term.when in (When.MISSING, When.NEVER)
    return term.negated != is_turned


def remark_value_types(query: Query, vocabulary: Vocabulary) -> list[Remark]:
    """Return remarks on texts and numbers compared with known keys that could be meant as another type."""
    return [
        Remark(message, _replace_terms(query, position, corrected))
        for position, term in enumerate(query.terms)
        if isinstance(term, StateTerm) and term.op == "=" and term.name in vocabulary.keys
        for message, corrected in _other_types(term)
    ]


def _other_types(term: StateTerm) -> Iterator[tuple[str, StateTerm]]:
    value = term.value
    if isinstance(value, str) and NUMBER.fullmatch(value):
        yield (
            f"{value[:40]!r} in quotation marks is compared as text.",
            replace(term, value=json.loads(value)),
        )
    elif isinstance(value, str) and value:
        yield (
            f"{value[:40]!r} must equal the whole text, including upper and lower case.",
            replace(term, op="~"),
        )
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield (
            f"{value} is compared as a number. Put it in quotation marks to compare it as text.",
            replace(term, value=str(value)),
        )


def remark_stars(query: Query) -> list[Remark]:
    """Return remarks on words with a star, which is a wildcard in other languages."""
    return [
        Remark(f"{term.text[:80]!r}: a star is not a wildcard; only whole words match.")
        for term in query.words
        if "*" in term.text
    ]


def remark_names(query: Query, vocabulary: Vocabulary) -> list[Remark]:
    """Return remarks on words that are names or ids, with the terms that match these."""
    return [
        Remark(f"{name[:80]!r} is {what}.", _replace_terms(query, position, corrected))
        for position, term in enumerate(query.terms)
        for name, what, corrected in _names_matching(term, vocabulary)
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


def _names_matching(term: Term, vocabulary: Vocabulary) -> Iterator[tuple[str, str, Term]]:
    """Yield each name in a term, a description of it, and the term that matches it."""
    if isinstance(term, StateTerm):
        return
    text = term.text if isinstance(term, Word) else f"{term.name}:{term.value}"
    if text in vocabulary.keys:
        scope, key = scopes.scope_of(text)
        yield text, "a state key", StateTerm(scope, key, when=When.EVER, negated=term.negated)
    if isinstance(term, Field):
        return
    if name := vocabulary.ids.get(text):
        yield text, f"the id of an {name}", Field(name, text, negated=term.negated)
    for name, what in _KINDS.items():
        if canonical_value(name, text) in vocabulary.of(name):
            yield text, what, Field(name, canonical_value(name, text), negated=term.negated)


_TIMES = {
    "at any time": When.EVER,
    "at some time": When.EVER,
    "at any point": When.EVER,
    "at some point": When.EVER,
    "any time": When.EVER,
    "anytime": When.EVER,
    "sometime": When.EVER,
    "once": When.EVER,
    "at no time": When.NEVER,
}
"""Phrases after a comparison that state its time, and the language's word for them."""

_ALWAYS = ("at all times", "all the time", "always")

_OPPOSITES = {"=": "!=", "!=": "=", ">": "<=", "<=": ">", "<": ">=", ">=": "<"}


def remark_times(query: Query) -> list[Remark]:
    """Return remarks on words after a comparison that state its time."""
    remarks = []
    for position, term in enumerate(query.terms):
        if not isinstance(term, StateTerm) or not term.op or term.when is not When.NOW:
            continue
        following = list(_leading_words(query.terms[position + 1 :]))
        for words, corrected in _time_phrases(term):
            if following[: len(words)] == words:
                phrase = " ".join(words)
                suggestion = _replace_terms(query, position, corrected, words=len(words))
                remarks.append(
                    Remark(f"{phrase!r} is read as text: did you mean {str(corrected)!r}?", suggestion)
                )
                break
    return remarks


def _leading_words(terms: tuple[Term, ...]) -> Iterator[str]:
    """Yield the leading free words of the terms, in lower case."""
    for term in terms:
        if not isinstance(term, Word) or term.negated:
            return
        yield term.text.lower()


def _time_phrases(term: StateTerm) -> Iterator[tuple[list[str], StateTerm]]:
    """Yield phrases that may follow a comparison, with the term that they and it mean."""
    for text, when in _TIMES.items():
        yield text.split(), replace(term, when=when)
    if term.op in _OPPOSITES:
        for text in _ALWAYS:
            yield text.split(), replace(term, op=_OPPOSITES[term.op], when=When.NEVER)


def _replace_terms(query: Query, position: int, *corrected: Term, words: int = 0) -> str:
    """Return the query with other terms in place of the one at `position` and the `words` after it."""
    terms = list(query.terms)
    terms[position : position + 1 + words] = corrected
    return str(Query(tuple(terms)))


def _name_in(term: Term) -> tuple[str, str] | None:
    if isinstance(term, StateTerm):
        return "key", term.name
    if isinstance(term, Field) and term.name in NAME_TERMS:
        return term.name, term.value
    return None


def _unknown_name_remark(query: Query, position: int, kind: str, name: str, vocabulary: Vocabulary) -> Remark:
    what = "No state has a key" if kind == "key" else f"No session has the {kind}"
    if kind in INDEXED_TERMS and not vocabulary.is_whole:
        what = f"Some sessions are not indexed yet. Of the others none has the {kind}"
    message = f"{what} {name[:80]!r}"
    for label, terms in suggest_terms(query, position, name, vocabulary.of(kind)):
        return Remark(f"{message}: did you mean {label!r}?", _replace_terms(query, position, *terms))
    return Remark(f"{message}.")
