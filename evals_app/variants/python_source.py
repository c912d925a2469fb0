"""Literals of agents in Python code: the values of the call that creates an agent, changed in place. Pure.

Only the literal changes; the text around it, its quotes and its way of breaking lines stay.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

LINE_LENGTH = 100
"""Characters of a line from which on a text of several string literals is broken."""


class NotReplaceable(ValueError):
    """The value of a field cannot be replaced in the file; the message says why."""


@dataclass(frozen=True)
class FieldValue:
    """The value that a field of an agent has in a file, and where its literal starts and ends, in characters."""

    field: str
    value: Any
    start: int = 0
    end: int = 0


class PythonSource:
    """The text of a Python file.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: it cannot be parsed, or mixes ends of lines.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._code = text.replace("\r\n", "\n")
        self._has_crlf = "\r\n" in text
        if "\r" in self._code or (self._has_crlf and self._code.count("\n") != text.count("\r\n")):
            raise ValueError("its lines end in different ways")
        self._tree = ast.parse(self._code)

    def find_value(self, agent_name: str, field: str) -> FieldValue | None:
        """Return the literal that a field of an agent has; None if no call names the agent with this field.

        Raises:
            NotReplaceable: the code has the field, but its value is no literal of its own.
        """
        values = [value for call in self._find_calls(agent_name) if (value := _find_keyword(call, field))]
        if not values:
            return None
        if len(values) > 1:
            raise NotReplaceable(f"{len(values)} calls of the file have the name {agent_name!r}")
        value = self._follow_name(values[0])
        if not isinstance(value, ast.Constant) or not isinstance(
            value.value, str | bool | int | float | None
        ):
            raise NotReplaceable("its value is an expression")
        start = self._offset(value.lineno, value.col_offset)
        end = self._offset(value.end_lineno or value.lineno, value.end_col_offset or 0)
        return FieldValue(field, value.value, start, end)

    def find_line(self, agent_name: str) -> int | None:
        """Return the line of the first call that names an agent; None if there is none."""
        return next((call.lineno for call in self._find_calls(agent_name)), None)

    def replace(self, changes: Iterable[tuple[FieldValue, Any]]) -> str:
        """Return the text with new values of literals.

        Raises:
            ValueError: a value cannot be written as a literal.
        """
        code = self._code
        for literal, value in sorted(changes, key=lambda change: change[0].start, reverse=True):
            column = literal.start - code.rfind("\n", 0, literal.start) - 1
            written = write_literal(code[literal.start : literal.end], value, column)
            code = code[: literal.start] + written + code[literal.end :]
        return code.replace("\n", "\r\n") if self._has_crlf else code

    def _find_calls(self, agent_name: str) -> Iterator[ast.Call]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call):
                name = _find_keyword(node, "name")
                if isinstance(name, ast.Constant) and name.value == agent_name:
                    yield node

    def _follow_name(self, value: ast.expr) -> ast.expr:
        """Return the value of a name that the module sets once and reads once; other expressions as they are.

        Raises:
            NotReplaceable: the name is set or read elsewhere, too.
        """
        if not isinstance(value, ast.Name):
            return value
        uses = [node for node in ast.walk(self._tree) if isinstance(node, ast.Name) and node.id == value.id]
        values = [
            statement.value
            for statement in self._tree.body
            if isinstance(statement, ast.Assign | ast.AnnAssign)
            and value.id in {getattr(target, "id", "") for target in _list_targets(statement)}
        ]
        if len(values) != 1 or values[0] is None:
            raise NotReplaceable(f"its value is {value.id}, which the module does not set just once")
        if len(uses) != 2:
            raise NotReplaceable(f"its value is {value.id}, which other code uses, too")
        return values[0]

    def _offset(self, line: int, column: int) -> int:
        """Return the offset in characters of a line, from 1, and a column in bytes of UTF-8, from 0."""
        start = self._line_starts[line - 1]
        line_text = self._code[start : start + column].encode()[:column]
        return start + len(line_text.decode())

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(index + 1 for index, character in enumerate(self._code) if character == "\n")]


def _find_keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _list_targets(statement: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def write_literal(old: str, value: Any, column: int = 0) -> str:
    """Return the code of a value, in the style of the literal that it replaces.

    Args:
        old: the code of that literal.
        column: where the literal begins, in characters.

    Raises:
        ValueError: the value cannot be written as a literal.
    """
    written = _write_text(old, value, column) if isinstance(value, str) else repr(value)
    if ast.literal_eval(f"({written})") != value:
        raise ValueError("its value cannot be written as a literal")
    return written


def _write_text(old: str, text: str, column: int) -> str:
    tokens = _list_strings(old)
    first = tokens[0].lstrip("rRuUbB") if tokens else '"'
    quote = first[0]
    if len(tokens) > 1:
        lines = [
            f"{quote}{_escape(piece, quote)}{quote}" for piece in _split_text(text, LINE_LENGTH - column)
        ]
        return f"\n{' ' * column}".join(lines)
    if "\n" in text.rstrip("\n") or first.startswith(quote * 3):
        continued = "\\\n" if first[3:].startswith("\\\n") or not first.startswith(quote * 3) else ""
        return f"{quote * 3}{continued}{_escape_block(text, quote)}{quote * 3}"
    return f"{quote}{_escape(text, quote)}{quote}"


def _list_strings(code: str) -> list[str]:
    """Return the string literals of an expression of them."""
    tokens = tokenize.generate_tokens(io.StringIO(f"({code})").readline)
    return [token.string for token in tokens if token.type == tokenize.STRING]


def _split_text(text: str, width: int) -> list[str]:
    """Return the pieces of a text, each at most `width` characters long where it has spaces; at least one."""
    pieces = []
    for line in text.splitlines(keepends=True):
        while len(line) > max(width, 20) and (space := line.rfind(" ", 1, max(width, 20))) > 0:
            pieces.append(line[: space + 1])
            line = line[space + 1 :]
        pieces.append(line)
    return pieces or [""]


def _escape(text: str, quote: str) -> str:
    """Return a text as it is written between quotes on one line."""
    return "".join(_escape_character(character, quote) for character in text)


def _escape_block(text: str, quote: str) -> str:
    """Return a text as it is written between triple quotes."""
    lines = (_escape(line, "") for line in text.split("\n"))
    block = "\n".join(lines).replace(quote * 3, f"\\{quote}" * 3)
    return f"{block[:-1]}\\{quote}" if block.endswith(quote) else block


def _escape_character(character: str, quote: str) -> str:
    if character in ("\\", quote):
        return f"\\{character}"
    return character if character.isprintable() else character.encode("unicode_escape").decode()
