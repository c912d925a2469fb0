"""Parsing of values and paths in state terms. Pure."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from sessions_app.search.query.scanner import Atom, QueryError, Scanner
from sessions_app.search.query.terms import LITERALS, NUMBER

MAX_INDEX = 2**31 - 1


def take_value(scanner: Scanner) -> Any:
    """Parse a value: JSON, or text that needs no quotation marks.

    Raises:
        QueryError: the value is invalid.
    """
    start = scanner.at
    if scanner.text[start] == '"':
        value = scanner.take_quoted()
        if not scanner.is_at_end and not scanner.text[scanner.at].isspace():
            raise QueryError(
                "There is no space after the closing quotation mark.",
                scanner.at,
                scanner.word_end(scanner.at),
            )
        return value
    if scanner.text[start] in "[{":
        return _take_json(scanner)
    scanner.at = scanner.word_end(start)
    word = scanner.text[start : scanner.at]
    if word in LITERALS:
        return LITERALS[word]
    if not NUMBER.fullmatch(word):
        return word
    number = json.loads(word)
    if isinstance(number, float) and not math.isfinite(number):
        raise QueryError("This number is too large.", start, scanner.at)
    return number


def _take_json(scanner: Scanner) -> Any:
    start = scanner.at
    try:
        value, end = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode(scanner.text, start)
    except (ValueError, RecursionError):
        end = scanner.word_end(start)
        raise QueryError(
            "This is not a JSON list or object.",
            start,
            end,
            hint="Put text that begins with [ or { in quotation marks.",
        ) from None
    scanner.at = end
    if not scanner.is_at_end and not scanner.text[end].isspace():
        raise QueryError("There is no space after the value.", end, end + 1)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON.")


_PATH = re.compile(r"(?:[^.\[\]]+|\[\d+\])(?:\.[^.\[\]]+|\[\d+\])*", re.ASCII)
_STEP = re.compile(r"[^.\[\]]+", re.ASCII)


def parse_json_path(scanner: Scanner, atom: Atom) -> tuple[str | int, ...]:
    """Parse a path such as `items[0].sku`: names with dots between them, indexes in brackets.

    Dots and brackets inside quotation marks belong to a name.

    Raises:
        QueryError: it is not a path.
    """
    pairs = zip(atom.text, atom.quoted, strict=True)
    marks = "".join("x" if is_quoted else char for char, is_quoted in pairs)
    steps = [
        int(marks[start:end]) if marks[start - 1 : start] == "[" else atom.text[start:end]
        for start, end in map(re.Match.span, _STEP.finditer(marks) if _PATH.fullmatch(marks) else ())
    ]
    if not steps or any(isinstance(step, int) and step > MAX_INDEX for step in steps):
        raise QueryError(
            "This is not a path into a value.",
            *atom.place,
            hint='Write cart->items[0].sku. Put names with special characters in quotation marks: cart->"a.b".',
        )
    return tuple(steps)
