"""What was probably meant by a query that finds nothing: names that nothing has, and words that are names. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from sessions_app import scopes
from sessions_app.search.query.completion import Vocabulary
from sessions_app.search.query.suggestions import suggest_terms
from sessions_app.search.query.terms import NUMBER, Field, Query, StateTerm, Term, When, Word, canonical_value

Name = tuple[str, str]
"""What is named, such as `tool`, and its name."""

NAME_TERMS = ("app", "user", "tool", "author", "tag", "key")
"""Terms whose values are names that the store knows."""

INDEXED_TERMS = ("tool", "author", "key")
"""Those of which it knows as many as the indexes have."""


@dataclass(frozen=True, slots=True)
class Remark:
    """What is to be said of a part of a query. `suggestion` is the whole query as it was probably meant, or nothing."""

    message: str
    suggestion: str = ""


def names_in(query: Query, *, of_what_is_not: bool = False) -> list[Name]:
    """Return the names in a query.

    Args:
        query: the query.
        of_what_is_not: only those in terms that hold where nothing has the name, such as `-tool:look` or
            `order_id missing`: these find as much with a name misspelled.
    """
    names = [_name_in(term) for term in query.terms if not of_what_is_not or _holds_without_name(term)]
    return [name for name in names if name]


def remark_unknown_names(
    query: Query,
    known: Vocabulary,
    *,
    existing: Collection[Name] = (),
    names: Collection[Name] | None = None,
) -> list[Remark]:
    """Return what is to be said of the names in a query that are not among the known ones.

    Args:
        query: the query.
        known: names that the store has.
        existing: those in the query that it has besides.
        names: of which in the query something is said; None: of all.
    """
    remarks = []
    for position, term in enumerate(query.terms):
        wanted = _name_in(term)
        if wanted is None or wanted in existing or (names is not None and wanted not in names):
            continue
        kind, name = wanted
        if name not in known.of(kind):
            remarks.append(_unknown_name_remark(query, position, kind, name, known))
    return remarks


def _holds_without_name(term: Term) -> bool:
    is_turned = isinstance(term, StateTerm) and term.when in (When.MISSING, When.NEVER)
    return term.negated != is_turned


def remark_value_types(query: Query, known: Vocabulary) -> list[Remark]:
    """Return how else the texts and numbers could be meant that the values of known keys are compared with."""
    return [
        Remark(message, _replace_terms(query, position, meant))
        for position, term in enumerate(query.terms)
        if isinstance(term, StateTerm) and term.op == "=" and term.name in known.keys
        for message, meant in _other_types(term)
    ]


def _other_types(term: StateTerm) -> Iterator[tuple[str, StateTerm]]:
    value = term.value
    if isinstance(value, str) and NUMBER.fullmatch(value):
        yield f"{value[:40]!r} in quotation marks is a text.", replace(term, value=json.loads(value))
    elif isinstance(value, str) and value:
        yield f"{value[:40]!r} is compared letter by letter.", replace(term, op="~")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield f"{value} is a number; as a text it is in quotation marks.", replace(term, value=str(value))


def remark_stars(query: Query) -> list[Remark]:
    """Return what is to be said of words with a star, which stands for anything in other languages."""
    return [
        Remark(f"{term.text[:80]!r}: words match whole, and a star stands for nothing else.")
        for term in query.words
        if "*" in term.text
    ]


def remark_names(query: Query, known: Vocabulary) -> list[Remark]:
    """Return what is to be said of parts of a query that are names or ids: which terms find what is called so."""
    return [
        Remark(f"{name[:80]!r} is {what}.", _replace_terms(query, position, meant))
        for position, term in enumerate(query.terms)
        for name, what, meant in _names_matching(term, known)
    ]


_KINDS = {
    "app": "an app",
    "user": "a user",
    "tool": "a tool",
    "author": "an author of events",
    "tag": "a tag",
    "is": "what a session may be",
    "kind": "a kind of event",
}


def _names_matching(term: Term, known: Vocabulary) -> Iterator[tuple[str, str, Term]]:
    """Yield names that a term holds, what has that name, and the term that finds it."""
    if isinstance(term, StateTerm):
        return
    text = term.text if isinstance(term, Word) else f"{term.name}:{term.value}"
    if text in known.keys:
        scope, key = scopes.scope_of(text)
        yield text, "a key of the state", StateTerm(scope, key, when=When.EVER, negated=term.negated)
    if isinstance(term, Field):
        return
    if name := known.ids.get(text):
        yield text, f"the id of an {name}", Field(name, text, negated=term.negated)
    for name, what in _KINDS.items():
        if canonical_value(name, text) in known.of(name):
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
"""Words that people write behind a comparison for when it holds, and what the language says for them."""

_ALWAYS = ("at all times", "all the time", "always")

_OPPOSITES = {"=": "!=", "!=": "=", ">": "<=", "<=": ">", "<": ">=", ">=": "<"}


def remark_times(query: Query) -> list[Remark]:
    """Return what is to be said of words behind a comparison that tell at which times it holds."""
    remarks = []
    for position, term in enumerate(query.terms):
        if not isinstance(term, StateTerm) or not term.op or term.when is not When.NOW:
            continue
        behind = list(_leading_words(query.terms[position + 1 :]))
        for words, meant in _time_phrases(term):
            if behind[: len(words)] == words:
                found = " ".join(words)
                suggestion = _replace_terms(query, position, meant, words=len(words))
                remarks.append(Remark(f"{found!r} is read as text: did you mean {str(meant)!r}?", suggestion))
                break
    return remarks


def _leading_words(terms: tuple[Term, ...]) -> Iterator[str]:
    """Yield the words that the terms begin with, in lower case."""
    for term in terms:
        if not isinstance(term, Word) or term.negated:
            return
        yield term.text.lower()


def _time_phrases(term: StateTerm) -> Iterator[tuple[list[str], StateTerm]]:
    """Yield words that may stand behind a comparison, with the term that is meant by it and them."""
    for text, when in _TIMES.items():
        yield text.split(), replace(term, when=when)
    if term.op in _OPPOSITES:
        for text in _ALWAYS:
            yield text.split(), replace(term, op=_OPPOSITES[term.op], when=When.NEVER)


def _replace_terms(query: Query, position: int, *meant: Term, words: int = 0) -> str:
    """Return the query with other terms in place of the one at a position and of so many words behind it."""
    terms = list(query.terms)
    terms[position : position + 1 + words] = meant
    return str(Query(tuple(terms)))


def _name_in(term: Term) -> tuple[str, str] | None:
    if isinstance(term, StateTerm):
        return "key", term.name
    if isinstance(term, Field) and term.name in NAME_TERMS:
        return term.name, term.value
    return None


def _unknown_name_remark(query: Query, position: int, kind: str, name: str, known: Vocabulary) -> Remark:
    what = "No state has a key" if kind == "key" else f"No session has the {kind}"
    if kind in INDEXED_TERMS and not known.is_whole:
        what = f"Search, which has yet to read some sessions, knows no {kind}"
    message = f"{what} {name[:80]!r}"
    for shown, terms in suggest_terms(query, position, name, known.of(kind)):
        return Remark(f"{message}: did you mean {shown!r}?", _replace_terms(query, position, *terms))
    return Remark(f"{message}.")
