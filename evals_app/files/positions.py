"""Positions of values in a file's text, in lines and columns as editors count them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from evals_app.files.syntax_tree import Node, PathKey, parse_tree


class Position(NamedTuple):
    """Line and column, both from 1."""

    line: int
    column: int


def position_of(text: str, at: int) -> Position:
    """Return the line and column of an offset."""
    return Position(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


class PositionFinder:
    """Finds the positions of values in a JSON or YAML text."""

    def __init__(self, text: str, kind: str) -> None:
        self._text = text
        try:
            self._root: Node | None = parse_tree(text, kind)
        except ValueError:
            self._root = None

    def of(self, path: Sequence[PathKey]) -> Position | None:
        """Return the position of the value at `path`, or of its nearest existing parent.

        The position of an object's entry is that of its key. None if the text cannot be parsed.
        """
        if self._root is None:
            return None
        node, at = self._root, self._root.start
        for key in path:
            child = node.child(key)
            if child is None:
                break
            node, at = child.node, child.start
        return position_of(self._text, at)
