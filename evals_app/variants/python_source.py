"""Literals of agents in Python code: the values of the call that creates an agent, changed in place. Pure.

Only the literal changes; the text around it, its quotes and its way of breaking lines stay.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

NO_AGENTS = frozenset({"App"})
"""Classes of ADK that have the name of an agent and are none."""

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
        SyntaxError, ValueError, RecursionError, MemoryError: it cannot be parsed, mixes ends of lines, or declares
            another encoding than UTF-8.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._code = text.replace("\r\n", "\n")
        self._has_crlf = "\r\n" in text
        if "\r" in self._code or (self._has_crlf and self._code.count("\n") != text.count("\r\n")):
            raise ValueError("its lines end in different ways")
        if tokenize.detect_encoding(io.BytesIO(text.encode()).readline)[0] not in ("utf-8", "utf-8-sig"):
            raise ValueError("its encoding is not UTF-8")
        self._tree = ast.parse(self._code)

    def find_lines(self, agent_name: str) -> list[int]:
        """Return the lines of the calls that give something this name, but for ADK's `App`."""
        return [call.lineno for call in self._calls.get(agent_name, [])]

    def find_value(self, agent_name: str, field: str) -> FieldValue:
        """Return the literal that a field has in the only call with the name of the agent.

        Raises:
            NotReplaceable: the call does not set the field, or its value is no literal of its own.
        """
        [call] = self._calls[agent_name]
        keyword = _find_keyword(call, field)
        if keyword is None:
            raise NotReplaceable("the agent's code does not set it by name")
        value = self._follow_name(keyword)
        if not isinstance(value, ast.Constant) or not isinstance(
            value.value, str | bool | int | float | None
        ):
            raise NotReplaceable("its value is an expression")
        start = self._offset(value.lineno, value.col_offset)
        end = self._offset(value.end_lineno or value.lineno, value.end_col_offset or 0)
        return FieldValue(field, value.value, start, end)

    def find_variable(self, agent_name: str, field: str) -> str:
        """Return the variable that holds the value of a field; empty if the call itself does."""
        [call] = self._calls[agent_name]
        value = _find_keyword(call, field)
        return value.id if isinstance(value, ast.Name) else ""

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

    @cached_property
    def _nodes(self) -> list[ast.AST]:
        return list(ast.walk(self._tree))

    @cached_property
    def _calls(self) -> dict[str, list[ast.Call]]:
        """The calls with a literal `name=`, by that name."""
        calls: dict[str, list[ast.Call]] = {}
        for node in self._nodes:
            if isinstance(node, ast.Call) and _get_identifier(node.func) not in NO_AGENTS:
                name = _find_keyword(node, "name")
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    calls.setdefault(name.value, []).append(node)
        return calls

    def _follow_name(self, value: ast.expr) -> ast.expr:
        """Return the value of a variable that the module sets once and reads once; other expressions as they are.

        Raises:
            NotReplaceable: the variable is set or read elsewhere, too.
        """
        if not isinstance(value, ast.Name):
            return value
        values = [
            statement.value
            for statement in self._tree.body
            if isinstance(statement, ast.Assign | ast.AnnAssign)
            and [_get_identifier(target) for target in _list_targets(statement)] == [value.id]
        ]
        if len(values) != 1 or values[0] is None:
            raise NotReplaceable(f"its value is {value.id}, which the module does not set just once")
        if sum(value.id in _list_identifiers(node) for node in self._nodes) != 2:
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


def _get_identifier(node: ast.AST) -> str:
    """Return the last identifier of `a` or `a.b`; empty for other expressions."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _list_identifiers(node: ast.AST) -> list[str | None]:
    """Return the variables that a node of the syntax tree reads, sets or hides."""
    match node:
        case (
            ast.Name(name)
            | ast.arg(name)
            | ast.FunctionDef(name)
            | ast.AsyncFunctionDef(name)
            | ast.ClassDef(name)
        ):
            return [name]
        case ast.alias(name, other_name):
            return [other_name or name]
        case ast.Global(names) | ast.Nonlocal(names):
            return list(names)
    return []


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
    if not isinstance(value, str | bool | int | float | None):
        raise ValueError("its value is an object")
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
