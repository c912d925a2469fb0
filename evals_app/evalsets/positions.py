"""Where in a file's text a value stands. JSON is read as the YAML it nearly is; its nodes know their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import yaml

Key = str | int


class Position(NamedTuple):
    """Line and column, both from 1."""

    line: int
    column: int


def locate(text: str, path: Sequence[Key]) -> Position | None:
    """Return where the value at `path` stands, or the nearest value around it that exists.

    None when the text cannot be read as YAML (some JSON cannot).
    """
    try:
        node = yaml.compose(text.replace("\t", " "), Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    mark = getattr(node, "start_mark", None)
    for key in path:
        found = _child(node, key)
        if found is None:
            break
        node, mark = found
    return Position(mark.line + 1, mark.column + 1) if mark is not None else None


def _child(node: yaml.Node | None, key: Key) -> tuple[yaml.Node, yaml.Mark] | None:
    """Return the child and where to point at: a list's item itself, a mapping's entry at its key."""
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        item = node.value[key]
        return item, item.start_mark
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == str(key):
                return value, name.start_mark
    return None
