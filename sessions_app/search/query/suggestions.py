"""Suggestions for a term whose name the store does not have. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches

from sessions_app import scopes
from sessions_app.models import Scope
from sessions_app.search.query.parsing import parse
from sessions_app.search.query.scanner import QueryError
from sessions_app.search.query.terms import (
    AGES,
    ALIASES,
    ARROW,
    FIELDS,
    MEASURES,
    Field,
    Query,
    StateTerm,
    Term,
    When,
    Word,
)
from sessions_app.store import tokens

CLOSENESS = 0.65
"""Minimum similarity of a suggested name, from 0 to 1 (`difflib`)."""


def suggest_terms(
    query: Query, position: int, name: str, names: Iterable[str]
) -> Iterator[tuple[str, tuple[Term, ...]]]:
    """Yield suggestions for a term with an unknown name, most likely first: a short text, and terms."""
    term = query.terms[position]
    if isinstance(term, Field) and term.name != "key":
        if close := _closest_name(name, {each: each for each in names}):
            yield close, (replace(term, value=close),)
        return
    if isinstance(term, StateTerm):
        if field := _as_field(term):
            yield str(replace(field, negated=False)), (field,)
        if inside := _as_path(term, names):
            yield str(replace(inside, negated=False)), (inside,)
    scope, key = _scope_of(name)
    in_this_scope_last = sorted(names, key=lambda each: _scope_of(each)[0] == scope)
    if close := _closest_name(key, {_scope_of(each)[1]: each for each in in_this_scope_last}):
        yield close, (_with_key(term, close),)
    if isinstance(term, StateTerm) and query.words and _is_text(term):
        words = (Word(term.name), Word(term.when))
        yield " ".join(map(str, words)), words


def _is_text(term: StateTerm) -> bool:
    """Return whether a term may be two words of text, such as `weather never`."""
    return not (term.op or term.path or term.negated) and tokens.parse_phrase(term.name) is not None


def _closest_name(name: str, by_name: Mapping[str, str]) -> str:
    """Return the value of the most similar name, ignoring case, or an empty string."""
    folded = {each.casefold(): what for each, what in by_name.items()}
    close = get_close_matches(name.casefold(), folded, 1, CLOSENESS)
    return folded[close[0]] if close else ""


def _scope_of(name: str) -> tuple[Scope | None, str]:
    try:
        return scopes.scope_of(name)
    except ValueError:  # a temp: key, which is not stored
        return None, name.partition(":")[2]


def _with_key(term: Term, name: str) -> Term:
    """Return the term with another key."""
    if isinstance(term, Field):
        return replace(term, value=name)
    scope, key = scopes.scope_of(name)
    return replace(term, scope=scope, key=key) if isinstance(term, StateTerm) else term


def _as_field(term: StateTerm) -> Field | None:
    """Return the named term meant by a comparison of a key with a term's name: `tool = look`, `updated < 2h`."""
    name = ALIASES.get(term.key.lower(), term.key.lower())
    if term.scope is not Scope.SESSION or term.path or not term.op or name not in FIELDS - MEASURES:
        return None
    op = term.op if name in AGES else "="
    value = term.value if isinstance(term.value, str) else json.dumps(term.value)
    negated = term.negated ^ (term.op == "!=") ^ (term.when is When.NEVER)
    parsed = _parse_term(str(Field(name, value, op, negated)))
    return parsed if isinstance(parsed, Field) else None


def _as_path(term: StateTerm, keys: Iterable[str]) -> StateTerm | None:
    """Return the term about a value inside a known key: for `cart.sku` or `cart[0]`, where `cart` is a key."""
    if term.path:
        return None
    for key in sorted(keys, key=len, reverse=True):
        rest = term.name.removeprefix(key)
        if rest != term.name and rest[0] in ".[":
            key_text = str(StateTerm(*scopes.scope_of(key), when=When.EVER)).removesuffix(f" {When.EVER}")
            path = _INDEX.sub(r"[\1]", rest).removeprefix(".")
            parsed = _parse_term(f"{key_text}{ARROW}{path} {When.EVER}")
            if isinstance(parsed, StateTerm):
                return replace(term, scope=parsed.scope, key=parsed.key, path=parsed.path)
    return None


_INDEX = re.compile(r"\.(\d+)(?![^.\[])", re.ASCII)
"""A list index as other languages write it: `cities.0`."""


def _parse_term(text: str) -> Term | None:
    """Parse a text of a single term; None if it is not one."""
    try:
        (term,) = parse(text).terms
    except (QueryError, ValueError):
        return None
    return term
