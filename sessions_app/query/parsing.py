"""From the text of a query to its terms. Pure.

A word is read up to the next space or comparison, quotation marks keep both. What follows a word decides what it is:
with a comparison, or `ever`, `missing` or `never`, it is a key of the state; with a known name and a colon a named
term; else free text.
"""

from __future__ import annotations

import json
import math
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn

from sessions_app import state
from sessions_app.errors import BadInput
from sessions_app.models import Scope
from sessions_app.query import times
from sessions_app.query.problems import QueryProblem
from sessions_app.query.terms import (
    AGES,
    ALIASES,
    ARROW,
    CLOSED,
    FIELDS,
    LITERALS,
    MEASURES,
    MOMENTS,
    NUMBER,
    OPERATORS,
    ORDERS,
    SHARED,
    Field,
    Query,
    StateTerm,
    Term,
    When,
    Word,
    is_suffix,
    looks_like_a_name,
    quoted,
)

MAX_LENGTH = 2_000
"""Longest query, in characters."""

MAX_TERMS = 40
MAX_INDEX = 2**31 - 1


def parse(text: str) -> Query:
    """Read a query; blank text is the empty one.

    Raises:
        QueryProblem: it cannot be meant; the problem says where, and what was probably meant.
    """
    if len(text) > MAX_LENGTH:
        raise QueryProblem(
            f"A query has at most {MAX_LENGTH:,} characters; this one has {len(text):,}.",
            MAX_LENGTH,
            len(text),
            hint="Look for a few telling words.",
        )
    return Query(tuple(_Reader(state.clean_text(text)).terms()))


class Atom(NamedTuple):
    """A word of the query as it was read: its place, its characters, and which of them stood in quotation marks."""

    start: int
    end: int
    text: str
    quoted: tuple[bool, ...]

    @property
    def is_bare(self) -> bool:
        """Tell whether nothing in it was quoted and it is no quoted nothing."""
        return bool(self.text) and not any(self.quoted)

    def find(self, mark: str) -> int:
        """Return where an unquoted mark begins in the text, or -1."""
        at = self.text.find(mark)
        while at >= 0 and any(self.quoted[at : at + len(mark)]):
            at = self.text.find(mark, at + 1)
        return at

    def after(self, length: int) -> Atom:
        """Return the atom without its first characters."""
        return self._replace(text=self.text[length:], quoted=self.quoted[length:])


class _Reader:
    """Reads one text from its start to its end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def terms(self) -> list[Term]:
        found: list[Term] = []
        self._skip_space()
        while self.at < len(self.text):
            start = self.at
            found.append(self._term())
            if len(found) > MAX_TERMS:
                self._refuse(
                    f"A query has at most {MAX_TERMS} terms.", start, hint="Look for a few telling words."
                )
            self._skip_space()
        return found

    def _term(self) -> Term:
        start = self.at
        negated = self._takes_negation()
        if op := self._operator_here():
            end = self._word_end(self.at)
            rest = self.text[self.at : end]
            self._refuse(
                f"Nothing stands before {op!r}: a comparison has a key on its left.",
                self.at,
                self.at + len(op),
                hint='Write user:tier = gold; text goes in quotation marks, as in "=>".',
                instead=(self.at, end, quoted(rest)),
            )
        atom = self._atom()
        name = _name_of(atom)
        if name and self._is_term(atom, name):
            return self._field(atom, name, negated)
        if self._comparison_follows() is not None or self._suffix_follows():
            return self._compared(atom, negated, start)
        if atom.find(ARROW) > 0:
            return self._state(atom, negated, "", None)
        if not atom.text.strip():
            self._refuse("There is nothing between the quotation marks.", atom.start, atom.end)
        self._refuse_unknown_name(atom)
        return Word(atom.text, negated)

    # Words and what follows them

    def _skip_space(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def _takes_negation(self) -> bool:
        ahead = self.text[self.at : self.at + 2]
        if len(ahead) == 2 and ahead[0] == "-" and not ahead[1].isspace() and ahead != ARROW:
            self.at += 1
            return True
        return False

    def _operator_at(self, at: int) -> str:
        return next((op for op in OPERATORS if self.text.startswith(op, at)), "")

    def _operator_here(self) -> str:
        return self._operator_at(self.at)

    def _word_end(self, at: int) -> int:
        while at < len(self.text) and not self.text[at].isspace():
            at += 1
        return at

    def _atom(self) -> Atom:
        """Read up to a space or a comparison; what stands in quotation marks is taken as it is."""
        start, text, marks = self.at, "", []
        while self.at < len(self.text) and not self.text[self.at].isspace():
            if self.text.startswith(ARROW, self.at):
                piece, is_quoted = ARROW, False
                self.at += len(ARROW)
            elif self._operator_here():
                break
            elif self.text[self.at] == '"':
                piece, is_quoted = self._quoted(), True
            else:
                piece, is_quoted = self.text[self.at], False
                self.at += 1
            text += piece
            marks += [is_quoted] * len(piece)
        return Atom(start, self.at, text, tuple(marks))

    def _quoted(self) -> str:
        """Read a text in quotation marks, in which a backslash takes the next character as it is."""
        start, found = self.at, ""
        self.at += 1
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return found
            if char == "\\" and self.at + 1 < len(self.text):
                self.at += 1
                char = self.text[self.at]
            found += char
            self.at += 1
        end = len(self.text)
        raise self._problem(
            "The quotation mark is never closed.",
            start,
            end,
            hint=r"Close it, or write \" for a quotation mark inside quoted text.",
            instead=(start, end, quoted(found.rstrip())),
        )

    def _comparison_follows(self) -> int | None:
        """Return where the comparison behind the spaces begins, or None."""
        ahead = self.at
        while ahead < len(self.text) and self.text[ahead].isspace():
            ahead += 1
        return ahead if self._operator_at(ahead) else None

    def _suffix_follows(self) -> str:
        """Return `ever`, `missing` or `never` when one is the next word, else nothing."""
        ahead = self.at
        while ahead < len(self.text) and self.text[ahead].isspace():
            ahead += 1
        if ahead == self.at:
            return ""
        word = self.text[ahead : self._word_end(ahead)]
        return word.lower() if is_suffix(word) else ""

    def _take_suffix(self) -> When:
        suffix = self._suffix_follows()
        if not suffix:
            return When.NOW
        self._skip_space()
        self.at += len(suffix)
        return When(suffix)

    # Named terms

    def _is_term(self, atom: Atom, name: str) -> bool:
        """Tell whether a word with a known name is a named term, not a key of the user's or the app's state."""
        if name in AGES | MEASURES:
            return True
        if name in SHARED and len(atom.text) > len(name) + 1:
            return self._comparison_follows() is None and not self._suffix_follows()
        return True

    def _field(self, atom: Atom, name: str, negated: bool) -> Field:
        value = atom.after(atom.find(":") + 1)
        place = (atom.start, atom.end)
        follows = self._comparison_follows()
        if name in AGES | MEASURES:
            return self._number(atom, name, value.text, negated)
        if follows is not None:
            self._refuse(
                f"{name}: takes no comparison.",
                follows,
                follows + len(self._operator_at(follows)),
                hint=f"Write {name}:value; a key of the state of this name stands in quotation marks.",
                instead=(*place, _as_key(atom, name)),
            )
        if not value.text.strip():
            self._refuse(f"{name}: needs a value.", *place, hint=_example(name))
        if name in MOMENTS:
            self._check_time(times.moment, value.text, place)
        return Field(name, self._value_of(name, value.text, place), negated=negated)

    def _value_of(self, name: str, value: str, place: tuple[int, int]) -> str:
        """Return the value in its one spelling; of a closed set only its members will do."""
        if name not in CLOSED:
            return value
        known = CLOSED[name]
        plain = value.lower().replace("-", "_")
        if plain in known:
            return plain
        close = get_close_matches(plain, known, 1)
        raise self._problem(
            f"{value[:40]!r} is no {'trait' if name == 'is' else name}{_or_meant(close)}",
            *place,
            hint=f"{name}: is one of {', '.join(known)}.",
            instead=(*place, f"{name}:{close[0]}") if close else None,
        )

    def _number(self, atom: Atom, name: str, value: str, negated: bool) -> Field:
        """Read `events>100`, `duration>30s`, `updated:<2h`."""
        op = "="
        if not value:
            follows = self._comparison_follows()
            if follows is None:
                self._refuse(
                    f"{name} needs a number to compare with.", atom.start, atom.end, hint=_example(name)
                )
            self.at = follows
            op = self._operator_here()
            self.at += len(op)
            self._skip_space()
            value = self._atom().text
        place = (atom.start, self.at)
        if op == "~" or (op == "=" and name in AGES and not value):
            self._refuse(f"{name} is a number: it contains nothing.", *place, hint=_example(name))
        if name in AGES or name == "duration":
            self._check_time(times.span, value, place)
        elif not (value.isascii() and value.isdigit() and len(value) < 19):
            self._refuse(f"{value[:40]!r} is no whole number.", *place, hint=_example(name))
        if name in AGES and op not in ORDERS:
            self._refuse(
                f"{name}: is compared by < or >.",
                *place,
                hint=_example(name),
                instead=(*place, f"{name}:<{value}"),
            )
        return Field(name, value if name in AGES or name == "duration" else str(int(value)), op, negated)

    def _check_time(self, read: Any, value: str, place: tuple[int, int]) -> None:
        try:
            read(value)
        except BadInput as error:
            self._refuse(error.message, *place, hint=error.hint)

    def _refuse_unknown_name(self, atom: Atom) -> None:
        """Refuse a word that looks like a named term and is none."""
        at = atom.find(":")
        if at <= 0:
            return
        name, value = atom.text[:at], atom.text[at + 1 :]
        if any(atom.quoted[:at]) or not looks_like_a_name(name, value):
            return
        close = get_close_matches(name.lower(), [*FIELDS, *ALIASES], 1)
        raw = self.text[atom.start : atom.end]
        meant = f"{close[0]}{raw[at:]}" if close else quoted(atom.text)
        raise self._problem(
            f"There is no term {name[:40]!r}{_or_meant(close)}",
            atom.start,
            atom.start + at + 1,
            hint="Text with a colon stands in quotation marks.",
            instead=(atom.start, atom.end, meant),
        )

    # Terms about state

    def _compared(self, atom: Atom, negated: bool, start: int) -> Term:
        """Read what follows a key: a comparison and a value, or a suffix alone."""
        follows = self._comparison_follows()
        if follows is None:
            return self._state(atom, negated, "", None)
        if atom.is_bare and atom.text.lower() in MEASURES:
            return self._number(atom, atom.text.lower(), "", negated)
        self.at = follows
        op = self._operator_here()
        self.at += len(op)
        if op == "=" and self.text.startswith("=", self.at):
            self.at += 1
        self._skip_space()
        if self.at == len(self.text):
            self._refuse(
                f"Nothing stands behind {op!r}: {atom.text[:40]} is compared with a value.",
                follows,
                follows + len(op),
                hint='Write user:tier = gold, retries > 3, note = "" for the empty text.',
            )
        value_start = self.at
        value = self._value()
        if op in ORDERS and (isinstance(value, bool) or not isinstance(value, str | int | float)):
            self._refuse(
                f"{op} compares numbers and texts.",
                value_start,
                self.at,
                hint="true, false, null, lists and objects are equal or not: use = or !=.",
            )
        if op == "~" and not isinstance(value, str):
            value = self.text[value_start : self.at]
        return self._state(atom, negated, op, value)

    def _state(self, atom: Atom, negated: bool, op: str, value: Any) -> StateTerm:
        end = self.at
        when = self._take_suffix()
        if op and when is When.MISSING:
            self._refuse(
                "A value that is compared cannot be missing.",
                end,
                self.at,
                hint="Write ever or never behind a comparison, or missing behind the key alone.",
            )
        if not op and when is When.NOW:
            self._refuse(
                f"Nothing is said of {atom.text[:40]!r}.",
                atom.start,
                atom.end,
                hint="Compare it, as in cart->items[0].sku = 3, or write ever, missing or never behind it.",
            )
        scope, key, path = self._key(atom)
        return StateTerm(scope, key, path, op, value, when, negated)

    def _key(self, atom: Atom) -> tuple[Scope, str, tuple[str | int, ...]]:
        arrow = atom.find(ARROW)
        key = atom.text if arrow < 0 else atom.text[:arrow]
        path = () if arrow < 0 else self._path(atom.after(arrow + len(ARROW)))
        prefix, colon, rest = key.partition(":")
        if colon and prefix.lower() in SHARED and not any(atom.quoted[: len(prefix) + 1]):
            key = f"{prefix.lower()}:{rest}"
        try:
            return (*state.scope_of(key), path)
        except ValueError:
            raise self._problem(
                f"{key[:40]!r} is temporary: it lives in one invocation and no state keeps it.",
                atom.start,
                atom.end,
                hint="The session's page shows temp: keys beside the events that wrote them.",
            ) from None

    def _path(self, atom: Atom) -> tuple[str | int, ...]:
        """Read `items[0].sku`; a name with odd characters stands in quotation marks."""
        steps: list[str | int] = []
        name: str | None = None
        wants_name = True
        at = 0

        def is_mark(mark: str) -> bool:
            return atom.text[at] == mark and not atom.quoted[at]

        while at < len(atom.text):
            if is_mark("["):
                close = atom.text.find("]", at)
                digits = atom.text[at + 1 : close]
                if close < 0 or not (digits.isascii() and digits.isdigit()) or int(digits[:12]) > MAX_INDEX:
                    self._refuse_path(atom)
                if name is not None:
                    steps.append(name)
                name, wants_name = None, False
                steps.append(int(digits))
                at = close + 1
            elif is_mark("."):
                if name is None and wants_name:
                    self._refuse_path(atom)
                if name is not None:
                    steps.append(name)
                name, wants_name = None, True
                at += 1
            else:
                if not wants_name or is_mark("]"):
                    self._refuse_path(atom)
                name = (name or "") + atom.text[at]
                at += 1
        if name is not None:
            steps.append(name)
        elif wants_name:
            self._refuse_path(atom)
        return tuple(steps)

    def _refuse_path(self, atom: Atom) -> None:
        self._refuse(
            "This is no path into a value.",
            atom.start,
            atom.end,
            hint='Write cart->items[0].sku; a name with odd characters in quotation marks: cart->"a.b".',
        )

    def _value(self) -> Any:
        """Read a value: JSON, or a text that needs no quotation marks."""
        start = self.at
        if self.text[start] == '"':
            value = self._quoted()
            if self.at < len(self.text) and not self.text[self.at].isspace():
                end = self._word_end(self.at)
                self._refuse(
                    "A space is missing behind the quotation mark.",
                    self.at,
                    end,
                    instead=(self.at, self.at, " "),
                )
            return value
        if self.text[start] in "[{":
            return self._json()
        self.at = self._word_end(start)
        word = self.text[start : self.at]
        if word in LITERALS:
            return LITERALS[word]
        if not NUMBER.fullmatch(word):
            return word
        number = json.loads(word)
        if isinstance(number, float) and not math.isfinite(number):
            self._refuse("This number is too large.", start, self.at)
        return number

    def _json(self) -> Any:
        start = self.at
        try:
            value, end = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode(self.text, start)
        except (ValueError, RecursionError):
            end = self._word_end(start)
            word = self.text[start:end]
            raise self._problem(
                "This is no JSON list or object.",
                start,
                end,
                hint="A text that begins with [ or { stands in quotation marks.",
                instead=(start, end, quoted(word)),
            ) from None
        self.at = end
        if end < len(self.text) and not self.text[end].isspace():
            self._refuse("A space is missing behind the value.", end, end + 1, instead=(end, end, " "))
        return value

    # Refusals

    def _refuse(
        self,
        message: str,
        start: int,
        end: int | None = None,
        *,
        hint: str = "",
        instead: tuple[int, int, str] | None = None,
    ) -> NoReturn:
        raise self._problem(message, start, end, hint=hint, instead=instead)

    def _problem(
        self,
        message: str,
        start: int,
        end: int | None = None,
        *,
        hint: str = "",
        instead: tuple[int, int, str] | None = None,
    ) -> QueryProblem:
        """Return a problem. `instead` says which part of the text was probably meant to be what."""
        suggestion = ""
        if instead:
            first, last, meant = instead
            suggestion = self.text[:first] + meant + self.text[last:]
        return QueryProblem(
            message, start, len(self.text) if end is None else end, hint=hint, suggestion=suggestion
        )


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON.")


def _name_of(atom: Atom) -> str:
    """Return the known name that an atom begins with, or nothing."""
    at = atom.find(":")
    if at <= 0 or any(atom.quoted[:at]):
        return ""
    name = atom.text[:at].lower()
    name = ALIASES.get(name, name)
    return name if name in FIELDS else ""


def _as_key(atom: Atom, name: str) -> str:
    """Return how an atom that looks like a named term is written as a key of the state."""
    return atom.text[len(name) + 1 :] if name == "session" else quoted(atom.text)


def _or_meant(close: list[str]) -> str:
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


def _example(name: str) -> str:
    if name in MEASURES:
        return f"Write {_EXAMPLES.get(name, f'{name}>100')}."
    return f"Write {_EXAMPLES.get(name, f'{name}:value')} without a space behind the colon."
