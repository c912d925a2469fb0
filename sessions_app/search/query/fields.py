"""Named terms, read behind their names: `app:weather`, `kind:error`, `events>100`, `updated:<2h`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches

from sessions_app.errors import BadInput
from sessions_app.search.query import times
from sessions_app.search.query.scanner import Atom, Replacement, Scanner
from sessions_app.search.query.terms import (
    AGES,
    ALIASES,
    CLOSED_VALUES,
    FIELDS,
    MEASURES,
    ORDERS,
    SHARED,
    TIMES,
    Field,
    canonical_value,
    looks_like_a_name,
    quote,
)

_WHOLE = re.compile(r"(\d{1,12})([km]?)", re.ASCII | re.IGNORECASE)
_THOUSANDS = {"": 1, "k": 1_000, "m": 1_000_000}
_UNIT_APART = re.compile(r"\s+(ms|[smhd])(?!\S)")
_SYNONYMS = {"failed": "error", "failing": "error"}
"""Words for what a session is that are no terms, but stand on pages."""


def field_name(atom: Atom) -> str:
    """Return the known name that an atom begins with, or nothing."""
    at = atom.find(":")
    if at <= 0 or any(atom.quoted[:at]):
        return ""
    name = atom.text[:at].lower()
    name = ALIASES.get(name, name)
    return name if name in FIELDS else ""


def is_field(scanner: Scanner, atom: Atom, name: str) -> bool:
    """Tell whether a word with a known name is a named term, not a key of the user's or the app's state."""
    if name in SHARED and len(atom.text) > len(name) + 1:
        return scanner.comparison_follows() is None and not scanner.suffix_follows()
    return True


def take_field(scanner: Scanner, atom: Atom, name: str, *, negated: bool) -> Field:
    """Return the named term that an atom begins.

    Raises:
        QueryProblem: its value cannot be meant.
    """
    value = atom.after(atom.find(":") + 1).text
    if name in AGES | MEASURES:
        return take_number(scanner, atom, name, value, negated=negated)
    follows = scanner.comparison_follows()
    if follows is not None:
        scanner.refuse(
            f"{name}: takes no comparison.",
            follows,
            follows + len(scanner.operator(follows)),
            hint=f"Write {name}:value; a key of the state of this name stands in quotation marks.",
            instead=(*atom.place, _key_spelling(atom, name)),
        )
    if not value.strip():
        scanner.refuse(
            f"{name}: needs a value.",
            *atom.place,
            hint=_example_hint(name),
            instead=_join_value(scanner, atom),
        )
    if name in TIMES:
        _check_time(scanner, times.parse_time, value, atom.place)
    return Field(name, _check_value(scanner, name, value, atom.place), negated=negated)


def take_number(scanner: Scanner, atom: Atom, name: str, value: str, *, negated: bool) -> Field:
    """Read what follows the name of a number: `events>100`, `duration>30s`, `updated:<2h`.

    Args:
        scanner: stands behind the name.
        atom: the name.
        name: its known form.
        value: what stands behind a colon, if one does; then the number equals it.
        negated: whether a minus sign stands before it.

    Raises:
        QueryProblem: nothing follows, or no number.
    """
    op = "="
    if not value:
        follows = scanner.comparison_follows()
        if follows is None:
            scanner.refuse(f"{name} needs a number to compare with.", *atom.place, hint=_example_hint(name))
        scanner.at = follows
        op = scanner.take_operator()
        scanner.skip_space()
        value = scanner.take_atom().text
    place = (atom.start, scanner.at)
    if op == "~" or (op == "=" and name in AGES and not value):
        scanner.refuse(f"{name} is a number: it contains nothing.", *place, hint=_example_hint(name))
    if name in AGES or name == "duration":
        _refuse_unit_apart(scanner, name, op, value, place)
        _check_time(scanner, times.parse_duration, value, place)
    elif (number := _whole_number(value)) is None:
        scanner.refuse(
            f"{value[:40]!r} is no whole number of at most 12 digits.", *place, hint=_example_hint(name)
        )
    else:
        value = str(number)
    if name in AGES and op not in ORDERS:
        scanner.refuse(
            f"{name}: is compared by < or >.",
            *place,
            hint=_example_hint(name),
            instead=(*place, f"{name}:<{value}"),
        )
    return Field(name, value, op, negated)


def refuse_unknown_name(scanner: Scanner, atom: Atom) -> None:
    """Refuse a word that looks like a named term and is none.

    Raises:
        QueryProblem: it does.
    """
    at = atom.find(":")
    if at <= 0:
        return
    name, value = atom.text[:at], atom.text[at + 1 :]
    if any(atom.quoted[:at]) or not looks_like_a_name(name, value):
        return
    close = get_close_matches(name.lower(), [*FIELDS, *ALIASES], 1)
    raw = scanner.text[atom.start : atom.end]
    meant = f"{close[0]}{raw[at:]}" if close else quote(atom.text)
    scanner.refuse(
        f"There is no term {name[:40]!r}{_did_you_mean(close)}",
        atom.start,
        atom.start + at + 1,
        hint="Text with a colon stands in quotation marks; a key of the state is compared, as in retries = 3.",
        instead=(*atom.place, meant),
    )


def _check_value(scanner: Scanner, name: str, value: str, place: tuple[int, int]) -> str:
    """Return the value in its one spelling; of a closed set only its members will do."""
    if name not in CLOSED_VALUES:
        return canonical_value(name, value)
    known = CLOSED_VALUES[name]
    plain = value.lower().replace("-", "_")
    if plain in known:
        return plain
    close = [_SYNONYMS[plain]] if _SYNONYMS.get(plain) in known else get_close_matches(plain, known, 1)
    scanner.refuse(
        f"{value[:40]!r} is no {'trait' if name == 'is' else name}{_did_you_mean(close)}",
        *place,
        hint=f"{name}: is one of {', '.join(known)}.",
        instead=(*place, f"{name}:{close[0]}") if close else None,
    )


def _whole_number(text: str) -> int | None:
    """Return the number of `100`, `10k` or `2m`."""
    found = _WHOLE.fullmatch(text)
    return int(found[1]) * _THOUSANDS[found[2].lower()] if found else None


def _join_value(scanner: Scanner, atom: Atom) -> Replacement | None:
    """Return the name and the word behind it without the space between them, where that could be its value."""
    start = scanner.beyond_space()
    end = scanner.word_end(start)
    written = scanner.text[start:end]
    if not written or ":" in written:
        return None
    return atom.start, end, scanner.text[atom.start : atom.end] + written


def _refuse_unit_apart(scanner: Scanner, name: str, op: str, value: str, place: tuple[int, int]) -> None:
    """Refuse `duration > 1 s`, which would be a number of seconds and a word to look for."""
    unit = _UNIT_APART.match(scanner.text, scanner.at)
    if unit is None or not value[-1:].isdigit():
        return
    colon = ":" if name in AGES else ""
    scanner.refuse(
        f"A space stands between {value[:20]} and its unit.",
        place[0],
        unit.end(),
        hint=_example_hint(name),
        instead=(place[0], unit.end(), f"{name}{colon}{op}{value}{unit[1]}"),
    )


def _check_time(scanner: Scanner, read: Callable[[str], float], value: str, place: tuple[int, int]) -> None:
    try:
        read(value)
    except BadInput as error:
        scanner.refuse(error.message, *place, hint=error.hint)


def _key_spelling(atom: Atom, name: str) -> str:
    """Return how an atom that looks like a named term is written as a key of the state."""
    return atom.text[len(name) + 1 :] if name == "session" else quote(atom.text)


def _did_you_mean(close: list[str]) -> str:
    return f": did you mean {close[0]!r}?" if close else "."


_EXAMPLES = {
    "duration": "duration>30s",
    "updated": "updated:<2h",
    "created": "created:>30d",
    "after": "after:2026-11-01",
    "before": "before:2026-11-01",
    "kind": "kind:error",
    "is": "is:pinned",
    "origin": "origin:import",
    "key": "key:user:tier",
}


def _example_hint(name: str) -> str:
    if name in MEASURES:
        return f"Write {_EXAMPLES.get(name, f'{name}>100')}."
    return f"Write {_EXAMPLES.get(name, f'{name}:value')} without a space behind the colon."
