"""What was probably meant by a query that finds nothing: names that nothing has, and words that are names. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches

from sessions_app import state
from sessions_app.query.completion import Vocabulary
from sessions_app.query.terms import Field, Query, StateTerm, Term, When, Word, spelled

NAMED = ("app", "user", "tool", "author", "tag", "key")
"""Terms whose values are names that the store knows."""

INDEXED = ("tool", "author", "key")
"""Those of which it knows as many as the indexes have."""


@dataclass(frozen=True, slots=True)
class Remark:
    """What is to be said of a part of a query. `suggestion` is the whole query as it was probably meant, or nothing."""

    message: str
    suggestion: str = ""


def unknown(query: Query, known: Vocabulary) -> list[Remark]:
    """Return what is to be said of the names in a query that are not among the known ones."""
    remarks = []
    for position, term in enumerate(query.terms):
        wanted = _name_in(term)
        if wanted is None:
            continue
        kind, name = wanted
        names = known.of(kind)
        if name not in names:
            remarks.append(_remark(query, position, kind, name, known))
    return remarks


def named(query: Query, known: Vocabulary) -> list[Remark]:
    """Return what is to be said of parts of a query that are names or ids: which terms find what is called so."""
    return [
        Remark(f"{name[:80]!r} is {what}.", _with(query, position, meant))
        for position, term in enumerate(query.terms)
        for name, what, meant in _called(term, known)
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


def _called(term: Term, known: Vocabulary) -> Iterator[tuple[str, str, Term]]:
    """Yield names that a term holds, what has that name, and the term that finds it."""
    if isinstance(term, StateTerm):
        return
    text = term.text if isinstance(term, Word) else f"{term.name}:{term.value}"
    if text in known.keys:
        scope, key = state.scope_of(text)
        yield text, "a key of the state", StateTerm(scope, key, when=When.EVER, negated=term.negated)
    if isinstance(term, Field):
        return
    if name := known.ids.get(text):
        yield text, f"the id of an {name}", Field(name, text, negated=term.negated)
    for name, what in _KINDS.items():
        if spelled(name, text) in known.of(name):
            yield text, what, Field(name, spelled(name, text), negated=term.negated)


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


def timed(query: Query) -> list[Remark]:
    """Return what is to be said of words behind a comparison that tell at which times it holds."""
    remarks = []
    for position, term in enumerate(query.terms):
        if not isinstance(term, StateTerm) or not term.op or term.when is not When.NOW:
            continue
        behind = list(_plain(query.terms[position + 1 :]))
        for words, meant in _times_of(term):
            if behind[: len(words)] == words:
                found = " ".join(words)
                suggestion = _with(query, position, meant, len(words))
                remarks.append(Remark(f"{found!r} is read as text: did you mean {str(meant)!r}?", suggestion))
                break
    return remarks


def _plain(terms: tuple[Term, ...]) -> Iterator[str]:
    """Yield the words that the terms begin with, in lower case."""
    for term in terms:
        if not isinstance(term, Word) or term.negated:
            return
        yield term.text.lower()


def _times_of(term: StateTerm) -> Iterator[tuple[list[str], StateTerm]]:
    """Yield words that may stand behind a comparison, with the term that is meant by it and them."""
    for text, when in _TIMES.items():
        yield text.split(), replace(term, when=when)
    if term.op in _OPPOSITES:
        for text in _ALWAYS:
            yield text.split(), replace(term, op=_OPPOSITES[term.op], when=When.NEVER)


def _with(query: Query, position: int, term: Term, words: int = 0) -> str:
    """Return the query with another term at a position, in whose place the words behind it go, too."""
    terms = list(query.terms)
    terms[position : position + 1 + words] = [term]
    return str(Query(tuple(terms)))


def _name_in(term: Term) -> tuple[str, str] | None:
    if isinstance(term, StateTerm):
        return "key", term.name
    if isinstance(term, Field) and term.name in NAMED:
        return term.name, term.value
    return None


def _remark(query: Query, position: int, kind: str, name: str, known: Vocabulary) -> Remark:
    close = get_close_matches(name, known.of(kind), 1)
    what = "No state has a key" if kind == "key" else f"No session has the {kind}"
    if kind in INDEXED and not known.is_whole:
        what = f"Search, which has yet to read some sessions, knows no {kind}"
    message = f"{what} {name[:80]!r}"
    if not close:
        return Remark(f"{message}.")
    meant = _renamed(query.terms[position], close[0])
    return Remark(f"{message}: did you mean {close[0]!r}?", _with(query, position, meant))


def _renamed(term: Term, name: str) -> Term:
    if isinstance(term, StateTerm):
        scope, key = state.scope_of(name)
        return replace(term, scope=scope, key=key)
    if isinstance(term, Field):
        return replace(term, value=name)
    return term
