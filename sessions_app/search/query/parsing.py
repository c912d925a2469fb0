"""Parser of queries. Pure.

The text after a word decides its meaning: with a comparison, or `ever`, `missing` or `never`, the word is a state key;
with a known name and a colon it is a named term; otherwise free text.
"""

from __future__ import annotations

from typing import Any

from sessions_app.search.query.fields import (
    field_name,
    is_field,
    refuse_unknown_name,
    take_field,
    take_number,
)
from sessions_app.search.query.scanner import Atom, QueryError, Scanner
from sessions_app.search.query.terms import (
    ARROW,
    CONNECTIVES,
    MEASURES,
    ORDERS,
    PREFIX_MARK,
    SHARED,
    Query,
    StateTerm,
    Term,
    When,
    Word,
    quote,
)
from sessions_app.search.query.values import parse_json_path, take_value
from sessions_app.store import scopes
from sessions_app.store.database import tokens
from sessions_app.store.models import Scope

MAX_LENGTH = 2_000
"""Maximum length of a query, in characters."""

MAX_TERMS = 40

MIN_PREFIX = 3
"""Minimum letters of the start of a word, in scripts with spaces: SQLite lists all words with that start."""


def parse(text: str) -> Query:
    """Parse a query; blank text is the empty query.

    Raises:
        QueryError: the text is not a valid query.
    """
    if len(text) > MAX_LENGTH:
        raise QueryError(
            f"A query has at most {MAX_LENGTH:,} characters; this one has {len(text):,}.",
            MAX_LENGTH,
            len(text),
            hint="Search for a few distinctive words.",
        )
    return Query(tuple(_take_terms(Scanner(scopes.clean_text(text)))))


def _take_terms(scanner: Scanner) -> list[Term]:
    terms: list[Term] = []
    scanner.skip_space()
    while not scanner.is_at_end:
        start = scanner.at
        terms.append(_take_term(scanner))
        if len(terms) > MAX_TERMS:
            raise QueryError(
                f"A query has at most {MAX_TERMS} terms.",
                start,
                len(scanner.text),
                hint="Search for a few distinctive words.",
            )
        scanner.skip_space()
    return terms


def _take_term(scanner: Scanner) -> Term:
    start = scanner.at
    negated = scanner.take_negation()
    _refuse_operator(scanner)
    atom = scanner.take_atom()
    name = field_name(atom)
    if name and is_field(scanner, atom, name):
        return take_field(scanner, atom, name, negated=negated)
    if scanner.comparison_follows() is not None or scanner.suffix_follows():
        return _take_comparison(scanner, atom, negated=negated)
    if atom.find(ARROW) > 0:
        return _take_state(scanner, atom, negated=negated)
    refuse_unknown_name(atom)
    _refuse_connective(atom)
    _refuse_no_word(scanner, atom, start)
    return _make_word(scanner, atom, start, negated=negated)


# Text


def _refuse_operator(scanner: Scanner) -> None:
    """Refuse a comparison that has no key before it."""
    if op := scanner.operator():
        raise QueryError(
            f"The key before {op!r} is missing.",
            scanner.at,
            scanner.at + len(op),
            hint='Write user:tier = gold. Put text in quotation marks: "=>x".',
        )


def _refuse_connective(atom: Atom) -> None:
    """Refuse `AND`, `OR` and `NOT`: operators of other languages, which would be searched as words."""
    if atom.is_bare and atom.text in CONNECTIVES:
        raise QueryError(
            f"There is no {atom.text}: all terms must match, and a minus sign negates a term.",
            *atom.place,
            hint=f"Run a search for each side of an OR. To search for the word, write {quote(atom.text)}.",
        )


def _refuse_no_word(scanner: Scanner, atom: Atom, start: int) -> None:
    """Refuse a text without a letter or digit: it would match nothing, and everything when negated."""
    if tokens.parse_phrase(atom.text) is None:
        raise QueryError(
            f"{scanner.text[start : atom.end][:40]!r} contains no letter or digit: search finds words.",
            start,
            atom.end,
            hint="Leave it out. To find punctuation use title:, error: or a comparison with ~, such as title:*.",
        )


def _make_word(scanner: Scanner, atom: Atom, start: int, *, negated: bool) -> Word:
    """Return a word, or the start of one: then a star that is not quoted ends it.

    Raises:
        QueryError: the start is so short that it would match most of the index's words.
    """
    if not atom.text.endswith(PREFIX_MARK) or atom.quoted[-1]:
        return Word(atom.text, negated)
    word = Word(atom.text.rstrip(PREFIX_MARK), negated, is_prefix=True)
    if word.phrase and len(word.phrase.tokens[-1]) < MIN_PREFIX and word.phrase.tokens[-1].isascii():
        raise QueryError(
            f"{scanner.text[start : atom.end][:40]!r} begins too many words.",
            start,
            atom.end,
            hint=f"Write at least {MIN_PREFIX} letters before the star.",
        )
    return word


# Terms about state


def _take_comparison(scanner: Scanner, atom: Atom, *, negated: bool) -> Term:
    """Parse the rest of a state term: a comparison and a value, or a suffix alone."""
    follows = scanner.comparison_follows()
    if follows is None:
        return _take_state(scanner, atom, negated=negated)
    if atom.is_bare and atom.text.lower() in MEASURES:
        return take_number(scanner, atom, atom.text.lower(), "", negated=negated)
    scanner.at = follows
    op = scanner.take_operator()
    if op == "=" and scanner.text.startswith("=", scanner.at):
        scanner.at += 1
    scanner.skip_space()
    if scanner.is_at_end:
        raise QueryError(
            f"The value after {op!r} is missing.",
            follows,
            follows + len(op),
            hint='Write user:tier = gold, retries > 3, note = "" for the empty text.',
        )
    start = scanner.at
    value = take_value(scanner)
    if op in ORDERS and (isinstance(value, bool) or not isinstance(value, str | int | float)):
        raise QueryError(
            f"{op} compares numbers and texts only.",
            start,
            scanner.at,
            hint="For true, false, null, lists and objects use = or !=.",
        )
    if op == "~" and not isinstance(value, str):
        value = scanner.text[start : scanner.at]
    return _take_state(scanner, atom, op, value, negated=negated)


def _take_state(scanner: Scanner, atom: Atom, op: str = "", value: Any = None, *, negated: bool) -> StateTerm:
    """Parse the time suffix of a state term."""
    end = scanner.at
    when = scanner.take_suffix()
    if op and when is When.MISSING:
        raise QueryError(
            "A comparison cannot be followed by missing.",
            end,
            scanner.at,
            hint="Write ever or never after a comparison, or missing after a key.",
        )
    if not op and when is When.NOW:
        raise QueryError(
            f"There is no comparison after {atom.text[:40]!r}.",
            *atom.place,
            hint="Write a comparison, such as cart->items[0].sku = 3, or ever, missing or never after it.",
        )
    scope, key, path = _parse_key(scanner, atom)
    return StateTerm(scope, key, path, op, value, when, negated)


def _parse_key(scanner: Scanner, atom: Atom) -> tuple[Scope, str, tuple[str | int, ...]]:
    """Return the scope, the key without its prefix, and the path into its value."""
    arrow = atom.find(ARROW)
    key = atom.text if arrow < 0 else atom.text[:arrow]
    path = () if arrow < 0 else parse_json_path(scanner, atom.after(arrow + len(ARROW)))
    prefix, colon, bare_key = key.partition(":")
    if colon and prefix.lower() in SHARED and not any(atom.quoted[: len(prefix) + 1]):
        key = f"{prefix.lower()}:{bare_key}"
    try:
        return (*scopes.split_scope(key), path)
    except ValueError:
        raise QueryError(
            f"{key[:40]!r} is temporary: temp: keys exist during one invocation and are never stored.",
            *atom.place,
            hint="The session page shows temp: keys with the events that wrote them.",
        ) from None
