"""Where in a file's text a value stands, in lines and columns as editors count them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from evals_app.files.syntax_tree import Node, PathKey, parse_tree


class Position(NamedTuple):
    """Line and column, both from 1."""

    line: int
    column: int


def position_of(text: str, at: int) -> Position:
    """Return the line and the column of an offset in a text."""
    return Position(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


class PositionFinder:
    """Looks up where values stand in one text of JSON or YAML."""

    def __init__(self, text: str, kind: str) -> None:
        self._text = text
        try:
            self._root: Node | None = parse_tree(text, kind)
        except ValueError:
            self._root = None

    def of(self, path: Sequence[PathKey]) -> Position | None:
        """Return where the value at `path` stands, or the nearest value around it that exists.

        A list's item is pointed at itself, an object's entry at its key. None when the text has no tree.
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
