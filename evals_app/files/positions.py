"""Where in a file's text a value stands, in lines and columns as editors count them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from evals_app.files.syntax_tree import Key, Node, tree


class Position(NamedTuple):
    """Line and column, both from 1."""

    line: int
    column: int


def position(text: str, at: int) -> Position:
    """Return the line and the column of an offset in a text."""
    return Position(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


class Places:
    """Looks up where values stand in one text of JSON or YAML."""

    def __init__(self, text: str, kind: str) -> None:
        self._text = text
        try:
            self._root: Node | None = tree(text, kind)
        except ValueError:
            self._root = None

    def of(self, path: Sequence[Key]) -> Position | None:
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
        return position(self._text, at)
