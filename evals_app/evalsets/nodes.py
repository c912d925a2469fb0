"""Where the values of a file stand in its text: a tree over JSON or YAML that knows every beginning and end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

from evals_app.evalsets.plain_yaml import PlainLoader

Key = str | int
Kind = Literal["object", "array", "scalar"]

_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(r'"(?:[^"\\]+|\\.)*"|[^\s,\]}]+', re.DOTALL)


@dataclass(slots=True)
class Node:
    """A value in a text.

    Attributes:
        start, end: offsets of its first character and of the one after its last.
        style: of a YAML value: "" plain, `'` or `"` quoted, `|` or `>` block text; collections: "block" or "flow".
    """

    kind: Kind
    start: int
    end: int
    style: str = ""
    children: list[Child] = field(default_factory=list)

    def child(self, key: Key) -> Child | None:
        """Return the child that a key names: of several of one name the last, as parsers have it."""
        if self.kind == "array":
            return self.children[key] if isinstance(key, int) and key < len(self.children) else None
        return next((child for child in reversed(self.children) if child.key == str(key)), None)


@dataclass(slots=True)
class Child:
    """An entry of an object, or an item of an array; `start` is its key's offset, or the item's own."""

    start: int
    key: Key
    key_end: int
    node: Node


def tree(text: str, kind: str) -> Node:
    """Return the tree of a text that can be read as `kind` (json or yaml).

    Raises:
        ValueError: it cannot be read after all, or it is nested too deeply.
    """
    try:
        return _json_value(text, _space(text, 0)) if kind == "json" else _yaml_tree(text)
    except (yaml.YAMLError, RecursionError, IndexError, AttributeError) as error:
        raise ValueError(f"no tree of this text: {error}") from error


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _json_value(text: str, at: int) -> Node:
    if text[at] not in "{[":
        found = _SCALAR.match(text, at)
        if found is None:
            raise ValueError(f"no value at {at}")
        return Node("scalar", at, found.end())
    node = Node("object" if text[at] == "{" else "array", at, at, "flow")
    at = _space(text, at + 1)
    while text[at] not in "}]":
        child = _json_child(text, at, len(node.children) if node.kind == "array" else None)
        node.children.append(child)
        at = _space(text, child.node.end)
        if text[at] == ",":
            at = _space(text, at + 1)
    node.end = at + 1
    return node


def _json_child(text: str, at: int, index: int | None) -> Child:
    if index is not None:
        return Child(at, index, at, _json_value(text, at))
    key = _json_value(text, at)
    colon = _space(text, key.end)
    value = _json_value(text, _space(text, colon + 1))
    return Child(at, str(json.loads(text[at : key.end], strict=False)), key.end, value)


def _yaml_tree(text: str) -> Node:
    composed = yaml.compose(text, Loader=PlainLoader)
    if composed is None:
        raise ValueError("an empty text")
    return _yaml_value(text, composed)


def _yaml_value(text: str, found: Any) -> Node:
    start = found.start_mark.index
    if isinstance(found, yaml.ScalarNode):
        return Node("scalar", start, _scalar_end(text, found), found.style or "")
    is_mapping = isinstance(found, yaml.MappingNode)
    node = Node(
        "object" if is_mapping else "array",
        start,
        found.end_mark.index,
        "flow" if found.flow_style else "block",
        list(_pairs(text, found) if is_mapping else _items(text, found)),
    )
    if node.style == "block" and node.children:
        node.end = max(child.node.end for child in node.children)
    return node


def _pairs(text: str, found: yaml.Node) -> Iterator[Child]:
    for key, value in found.value:
        yield Child(key.start_mark.index, str(key.value), key.end_mark.index, _yaml_value(text, value))


def _items(text: str, found: yaml.Node) -> Iterator[Child]:
    for index, item in enumerate(found.value):
        yield Child(item.start_mark.index, index, item.start_mark.index, _yaml_value(text, item))


def _scalar_end(text: str, found: yaml.ScalarNode) -> int:
    """Return where a scalar ends: block text without the blank lines behind it, unless it keeps them."""
    start, end = found.start_mark.index, found.end_mark.index
    if found.style not in ("|", ">"):
        return int(end)
    whole = text[start:end]
    if "+" in whole.split("\n", 1)[0].split("#", 1)[0]:
        return int(start + max(whole.rfind("\n"), 0))
    return int(start + len(whole.rstrip()))
