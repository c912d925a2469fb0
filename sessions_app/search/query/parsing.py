"""Parser of queries. Pure.

The text after a word decides its meaning: with a comparison, or `ever`, `missing` or `never`, the word is a state key;
with a known name and a colon it is a named term; otherwise free text.
"""

from __future__ import annotations

from typing import Any

from sessions_app import scopes
from sessions_app.models import Scope
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
    SHARED,
    Query,
    StateTerm,
    Term,
    When,
    Word,
    quote,
)
from sessions_app.search.query.values import path_of, take_value
from sessions_app.store import tokens

MAX_LENGTH = 2_000
"""Maximum length of a query, in characters."""

MAX_TERMS = 40

MOST_CORRECTIONS = 5
"""Maximum number of errors that one suggestion corrects."""


def parse(text: str) -> Query:
    """Parse a query; blank text is the empty query.

    Raises:
        QueryError: the text is not a valid query.
    """
    try:
        return _parse(text)
    except QueryError as problem:
        problem.suggestion = _valid_suggestion(problem.suggestion)
        raise


def _valid_suggestion(suggestion: str) -> str:
    """Return a suggestion with its own errors corrected, or an empty string."""
    for _ in range(MOST_CORRECTIONS):
        try:
            _parse(suggestion)
        except QueryError as problem:
            suggestion = problem.suggestion
        else:
            return suggestion
    return ""


def _parse(text: str) -> Query:
    if len(text) > MAX_LENGTH:
        raise QueryError(
            f"A query has at most {MAX_LENGTH:,} characters; this one has {len(text):,}.",
            MAX_LENGTH,
            len(text),
            hint="Look for a few telling words.",
        )
    return Query(tuple(_take_terms(Scanner(scopes.clean_text(text)))))


def _take_terms(scanner: Scanner) -> list[Term]:
    terms: list[Term] = []
    scanner.skip_space()
    while not scanner.is_at_end:
        start = scanner.at
        terms.append(_take_term(scanner))
        if len(terms) > MAX_TERMS:
            raise scanner.error(
                f"A query has at most {MAX_TERMS} terms.", start, hint="Look for a few telling words."
            )
        scanner.skip_space()
    return terms


def _take_term(scanner: Scanner) -> Term:
    start = scanner.at
    negated = scanner.take_negation()
    if negated:
        _refuse_second_minus(scanner, start)
    _refuse_operator(scanner)
    atom = scanner.take_atom()
    name = field_name(atom)
    if name and is_field(scanner, atom, name):
        return take_field(scanner, atom, name, negated=negated)
    if scanner.comparison_follows() is not None or scanner.suffix_follows():
        return _take_comparison(scanner, atom, negated=negated)
    if atom.find(ARROW) > 0:
        return _take_state(scanner, atom, negated=negated)
    refuse_unknown_name(scanner, atom)
    _refuse_connective(scanner, atom)
    _refuse_no_word(scanner, atom, start)
    return Word(atom.text, negated)


# Text


def _refuse_operator(scanner: Scanner) -> None:
    """Refuse a comparison that has no key before it."""
    op = scanner.operator()
    if not op:
        return
    end = scanner.word_end(scanner.at)
    rest = scanner.text[scanner.at : end]
    raise scanner.error(
        f"Nothing stands before {op!r}: a comparison has a key on its left.",
        scanner.at,
        scanner.at + len(op),
        hint='Write user:tier = gold; text goes in quotation marks, as in "=>x".',
        replacement=(scanner.at, end, quote(rest)) if tokens.parse_phrase(rest) else None,
    )


def _refuse_second_minus(scanner: Scanner, start: int) -> None:
    """Refuse a double minus sign as in `--verbose`: text, or a term negated twice."""
    if (
        not scanner.is_at_end
        and scanner.text[scanner.at] == "-"
        and not scanner.text.startswith(ARROW, scanner.at)
    ):
        end = scanner.word_end(start)
        word = scanner.text[start:end]
        if tokens.parse_phrase(word):
            raise scanner.error(
                "Two minus signs stand before a term.",
                start,
                scanner.at + 1,
                hint="One turns it around; text that begins with them stands in quotation marks.",
                replacement=(start, end, quote(word)),
            )


def _refuse_connective(scanner: Scanner, atom: Atom) -> None:
    """Refuse `AND`, `OR` and `NOT`: operators of other languages, which would be searched as words."""
    if not atom.is_bare or atom.text not in CONNECTIVES:
        return
    rest = scanner.text[atom.end :].lstrip()
    correction = {"AND": rest, "NOT": f"-{rest}", "OR": ""}[atom.text]
    raise scanner.error(
        f"There is no {atom.text}: every term must hold, and a minus sign before one turns it around.",
        *atom.place,
        hint=f"Open a list for each side of an OR. The word itself stands in quotation marks: {quote(atom.text)}.",
        replacement=(atom.start, len(scanner.text), correction) if rest and correction else None,
    )


def _refuse_no_word(scanner: Scanner, atom: Atom, start: int) -> None:
    """Refuse a text without a letter or digit: it would match nothing, and everything when negated."""
    if tokens.parse_phrase(atom.text) is not None:
        return
    if not atom.text.strip():
        raise scanner.error("There is nothing between the quotation marks.", *atom.place)
    before, after = scanner.text[:start].rstrip(), scanner.text[atom.end :].lstrip()
    if atom.text == "-" and not before:
        after = f"-{after}" if after else ""
    raise scanner.error(
        f"No letter or digit is in {scanner.text[start : atom.end][:40]!r}: search finds words.",
        start,
        atom.end,
        hint="Leave it out; title: and error: and a comparison with ~ find signs too, as in title:*.",
        replacement=(0, len(scanner.text), f"{before} {after}".strip()) if before or after else None,
    )


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
        raise scanner.error(
            f"Nothing stands behind {op!r}: {atom.text[:40]} is compared with a value.",
            follows,
            follows + len(op),
            hint='Write user:tier = gold, retries > 3, note = "" for the empty text.',
        )
    start = scanner.at
    value = take_value(scanner)
    if op in ORDERS and (isinstance(value, bool) or not isinstance(value, str | int | float)):
        raise scanner.error(
            f"{op} compares numbers and texts.",
            start,
            scanner.at,
            hint="true, false, null, lists and objects are equal or not: use = or !=.",
        )
    if op == "~" and not isinstance(value, str):
        value = scanner.text[start : scanner.at]
    return _take_state(scanner, atom, op, value, negated=negated)


def _take_state(scanner: Scanner, atom: Atom, op: str = "", value: Any = None, *, negated: bool) -> StateTerm:
    """Parse the time suffix of a state term."""
    end = scanner.at
    when = scanner.take_suffix()
    if op and when is When.MISSING:
        raise scanner.error(
            "A value that is compared cannot be missing.",
            end,
            scanner.at,
            hint="Write ever or never behind a comparison, or missing behind the key alone.",
        )
    if not op and when is When.NOW:
        raise scanner.error(
            f"Nothing is said of {atom.text[:40]!r}.",
            *atom.place,
            hint="Compare it, as in cart->items[0].sku = 3, or write ever, missing or never behind it.",
        )
    scope, key, path = _parse_key(scanner, atom)
    return StateTerm(scope, key, path, op, value, when, negated)


def _parse_key(scanner: Scanner, atom: Atom) -> tuple[Scope, str, tuple[str | int, ...]]:
    """Return the scope, the key without its prefix, and the path into its value."""
    arrow = atom.find(ARROW)
    key = atom.text if arrow < 0 else atom.text[:arrow]
    path = () if arrow < 0 else path_of(scanner, atom.after(arrow + len(ARROW)))
    prefix, colon, rest = key.partition(":")
    if colon and prefix.lower() in SHARED and not any(atom.quoted[: len(prefix) + 1]):
        key = f"{prefix.lower()}:{rest}"
    try:
        return (*scopes.scope_of(key), path)
    except ValueError:
        raise scanner.error(
            f"{key[:40]!r} is temporary: it lives in one invocation and no state keeps it.",
            *atom.place,
            hint="The session's page shows temp: keys beside the events that wrote them.",
        ) from None
