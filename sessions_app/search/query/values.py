"""Parsing of values and paths in state terms. Pure."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from sessions_app.search.query.scanner import Atom, Scanner
from sessions_app.search.query.terms import LITERALS, NUMBER, quote

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
            scanner.refuse(
                "A space is missing behind the quotation mark.",
                scanner.at,
                scanner.word_end(scanner.at),
                replacement=(scanner.at, scanner.at, " "),
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
        scanner.refuse("This number is too large.", start, scanner.at)
    return number


def _take_json(scanner: Scanner) -> Any:
    start = scanner.at
    try:
        value, end = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode(scanner.text, start)
    except (ValueError, RecursionError):
        end = scanner.word_end(start)
        raise scanner.error(
            "This is no JSON list or object.",
            start,
            end,
            hint="A text that begins with [ or { stands in quotation marks.",
            replacement=(start, end, quote(scanner.text[start:end])),
        ) from None
    scanner.at = end
    if not scanner.is_at_end and not scanner.text[end].isspace():
        scanner.refuse("A space is missing behind the value.", end, end + 1, replacement=(end, end, " "))
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON.")


def path_of(scanner: Scanner, atom: Atom) -> tuple[str | int, ...]:
    """Parse a path such as `items[0].sku`; a name with special characters is quoted.

    Raises:
        QueryError: it is not a path.
    """
    return _Path(scanner, atom).read()


class _Path:
    """Parser of one path: names with dots between them, indexes in brackets."""

    def __init__(self, scanner: Scanner, atom: Atom) -> None:
        self.scanner = scanner
        self.atom = atom
        self.at = 0
        self.steps: list[str | int] = []
        self.name: str | None = None
        self.wants_name = True

    def read(self) -> tuple[str | int, ...]:
        while self.at < len(self.atom.text):
            if self._is_mark("["):
                self._take_index()
            elif self._is_mark("."):
                if self.name is None and self.wants_name:
                    self._refuse()
                self._end_name(wants_another=True)
                self.at += 1
            else:
                if not self.wants_name or self._is_mark("]"):
                    self._refuse()
                self.name = (self.name or "") + self.atom.text[self.at]
                self.at += 1
        if self.name is None and self.wants_name:
            self._refuse()
        self._end_name(wants_another=False)
        return tuple(self.steps)

    def _take_index(self) -> None:
        close = self.atom.text.find("]", self.at)
        digits = self.atom.text[self.at + 1 : close]
        if close < 0 or not (digits.isascii() and digits.isdigit()) or int(digits) > MAX_INDEX:
            self._refuse()
        self._end_name(wants_another=False)
        self.steps.append(int(digits))
        self.at = close + 1

    def _end_name(self, *, wants_another: bool) -> None:
        if self.name is not None:
            self.steps.append(self.name)
        self.name, self.wants_name = None, wants_another

    def _is_mark(self, mark: str) -> bool:
        return self.atom.text[self.at] == mark and not self.atom.quoted[self.at]

    def _refuse(self) -> NoReturn:
        self.scanner.refuse(
            "This is no path into a value.",
            *self.atom.place,
            hint='Write cart->items[0].sku; a name with odd characters in quotation marks: cart->"a.b".',
        )
