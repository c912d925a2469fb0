"""Parsing of named terms: `app:weather`, `kind:error`, `events>100`, `updated:<2h`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches

from sessions_app.search.query import times
from sessions_app.search.query.scanner import Atom, QueryError, Scanner
from sessions_app.search.query.terms import (
    AGES,
    ALIASES,
    CLOSED_VALUES,
    FIELDS,
    MEASURES,
    ORDERS,
    PERIODS,
    SHARED,
    TIMES,
    Field,
    canonical_value,
    looks_like_a_name,
)
from sessions_app.store.errors import BadInput

_WHOLE = re.compile(r"\d{1,12}", re.ASCII)


def field_name(atom: Atom) -> str:
    """Return the known term name that an atom begins with, or an empty string."""
    colon = atom.find(":")
    if colon <= 0 or any(atom.quoted[:colon]):
        return ""
    name = atom.text[:colon].lower()
    name = ALIASES.get(name, name)
    return name if name in FIELDS else ""


def is_field(scanner: Scanner, atom: Atom, name: str) -> bool:
    """Return whether a word with a known name is a named term, not a key of user or app state."""
    if name in SHARED and len(atom.text) > len(name) + 1:
        return scanner.comparison_follows() is None and not scanner.suffix_follows()
    return True


def take_field(scanner: Scanner, atom: Atom, name: str, *, negated: bool) -> Field:
    """Parse the named term that an atom begins.

    Raises:
        QueryError: its value is invalid.
    """
    value = atom.after(atom.find(":") + 1).text
    if name in AGES | MEASURES:
        return take_number(scanner, atom, name, value, negated=negated)
    follows = scanner.comparison_follows()
    if follows is not None:
        raise QueryError(
            f"{name}: takes no comparison.",
            follows,
            follows + len(scanner.operator(follows)),
            hint=f"Write {name}:value. Put a state key of this name in quotation marks.",
        )
    if not value.strip():
        raise QueryError(f"{name}: needs a value.", *atom.place, hint=_example_hint(name))
    if name in TIMES:
        _check_time(times.parse_time, value, atom.place)
    if name in PERIODS:
        _check_time(times.parse_period, value, atom.place)
    return Field(name, _check_value(name, value, atom.place), negated=negated)


def take_number(scanner: Scanner, atom: Atom, name: str, value: str, *, negated: bool) -> Field:
    """Parse the rest of a numeric term: `events>100`, `duration>30s`, `updated:<2h`.

    Args:
        scanner: positioned behind the name.
        atom: the name.
        name: its known form.
        value: the text after a colon, if there is one: the number equals it.
        negated: whether a minus sign precedes it.

    Raises:
        QueryError: nothing follows, or no number.
    """
    op = "="
    if not value:
        follows = scanner.comparison_follows()
        if follows is None:
            raise QueryError(f"{name} needs a number to compare with.", *atom.place, hint=_example_hint(name))
        scanner.at = follows
        op = scanner.take_operator()
        scanner.skip_space()
        value = scanner.take_atom().text
    span = (atom.start, scanner.at)
    if op == "~" or (op == "=" and name in AGES and not value):
        raise QueryError(
            f"{name} is a number and cannot be compared with ~ or with nothing.",
            *span,
            hint=_example_hint(name),
        )
    if name in AGES or name == "duration":
        _check_time(times.parse_duration, value, span)
    elif not _WHOLE.fullmatch(value):
        raise QueryError(
            f"{value[:40]!r} is not a whole number of at most 12 digits.", *span, hint=_example_hint(name)
        )
    else:
        value = str(int(value))
    if name in AGES and op not in ORDERS:
        raise QueryError(f"{name}: is compared with < or >.", *span, hint=_example_hint(name))
    return Field(name, value, op, negated)


def refuse_unknown_name(atom: Atom) -> None:
    """Refuse a word that looks like a named term but has an unknown name.

    Raises:
        QueryError: it does.
    """
    colon = atom.find(":")
    if colon <= 0:
        return
    name, value = atom.text[:colon], atom.text[colon + 1 :]
    if any(atom.quoted[:colon]) or not looks_like_a_name(name, value):
        return
    close = get_close_matches(name.lower(), [*FIELDS, *ALIASES], 1)
    raise QueryError(
        f"There is no term {name[:40]!r}{_did_you_mean(close)}",
        atom.start,
        atom.start + colon + 1,
        hint="Put text with a colon in quotation marks. To search for a state key, compare it: retries = 3.",
    )


def _check_value(name: str, value: str, span: tuple[int, int]) -> str:
    """Return the canonical value; for a closed set only its members are accepted."""
    if name not in CLOSED_VALUES:
        return canonical_value(name, value)
    values = CLOSED_VALUES[name]
    plain = value.lower().replace("-", "_")
    if plain in values:
        return plain
    close = get_close_matches(plain, values, 1)
    raise QueryError(
        f"{value[:40]!r} is not a value of {name}{_did_you_mean(close)}",
        *span,
        hint=f"Values of {name}: {', '.join(values)}.",
    )


def _check_time(read: Callable[[str], object], value: str, span: tuple[int, int]) -> None:
    try:
        read(value)
    except BadInput as error:
        raise QueryError(error.message, *span, hint=error.hint) from error


def _did_you_mean(close: list[str]) -> str:
    return f": did you mean {close[0]!r}?" if close else "."


_EXAMPLES = {
    "duration": "duration>30s",
    "updated": "updated:<2h",
    "created": "created:>30d",
    "after": "after:2026-11-01",
    "before": "before:2026-11-01",
    "during": "during:2026-11-01",
    "kind": "kind:error",
    "is": "is:pinned",
    "origin": "origin:import",
    "level": "level:error",
    "judged": "judged:bad",
    "key": "key:user:tier",
}


def _example_hint(name: str) -> str:
    if name in MEASURES:
        return f"Write {_EXAMPLES.get(name, f'{name}>100')}."
    return f"Write {_EXAMPLES.get(name, f'{name}:value')} without a space after the colon."
