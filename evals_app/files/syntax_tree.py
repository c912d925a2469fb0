"""Syntax tree of a JSON or YAML text, with the start and end of every value, and their lines and columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import yaml

from evals_app.files.plain_yaml import PlainLoader
from sessions_app.store.database.gc_tuning import pause_collector

PathKey = str | int
NodeKind = Literal["object", "array", "scalar"]

ALIAS = "alias"

_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(r'"(?:[^"\\]+|\\.)*"|[^\s,\]}]+', re.DOTALL)


@dataclass(slots=True)
class Node:
    """Value in a text.

    Attributes:
        start, end: offsets of its first character and of the one after its last.
        style: of a YAML value: "" plain, `'` or `"` quoted, `|` or `>` block text; collections: "block" or "flow";
            "alias" for an alias, whose children are those of the anchor.
    """

    kind: NodeKind
    start: int
    end: int
    style: str = ""
    children: list[ChildNode] = field(default_factory=list)

    def child(self, key: PathKey) -> ChildNode | None:
        """Return the child with a key: the last one of several, as parsers do."""
        if self.kind == "array":
            return self.children[key] if isinstance(key, int) and key < len(self.children) else None
        return next((child for child in reversed(self.children) if child.key == str(key)), None)


@dataclass(slots=True)
class ChildNode:
    """Entry of an object, or item of an array. `start` is the offset of the key, or of the item."""

    start: int
    key: PathKey
    key_end: int
    node: Node


def parse_tree(text: str, kind: str) -> Node:
    """Return the syntax tree of a valid text of `kind` json or yaml.

    Raises:
        ValueError: the text is invalid or nested too deeply.
    """
    try:
        with pause_collector():
            return _json_value(text, _skip_space(text, 0)) if kind == "json" else _yaml_tree(text)
    except (yaml.YAMLError, RecursionError, LookupError, AttributeError) as error:
        raise ValueError(f"no tree of this text: {error}") from error


def _skip_space(text: str, offset: int) -> int:
    match = _SPACE.match(text, offset)
    return match.end() if match else offset


def _json_value(text: str, offset: int) -> Node:
    if text[offset] not in "{[":
        match = _SCALAR.match(text, offset)
        if match is None:
            raise ValueError(f"no value at {offset}")
        return Node("scalar", offset, match.end())
    node = Node("object" if text[offset] == "{" else "array", offset, offset, "flow")
    offset = _skip_space(text, offset + 1)
    while text[offset] not in "}]":
        child = _json_child(text, offset, len(node.children) if node.kind == "array" else None)
        node.children.append(child)
        offset = _skip_space(text, child.node.end)
        if text[offset] == ",":
            offset = _skip_space(text, offset + 1)
    node.end = offset + 1
    return node


def _json_child(text: str, offset: int, index: int | None) -> ChildNode:
    if index is not None:
        return ChildNode(offset, index, offset, _json_value(text, offset))
    key = _json_value(text, offset)
    colon = _skip_space(text, key.end)
    value = _json_value(text, _skip_space(text, colon + 1))
    return ChildNode(offset, str(json.loads(text[offset : key.end], strict=False)), key.end, value)


def _yaml_tree(text: str) -> Node:
    events: Iterator[Any] = yaml.parse(text, Loader=PlainLoader)
    first = next((event for event in events if isinstance(event, yaml.NodeEvent)), None)
    if first is None:
        raise ValueError("an empty text")
    return _YamlTreeBuilder(text, events).node(first)


class _YamlTreeBuilder:
    """Builder of nodes from parser events. An alias has its own position, not that of its anchor."""

    def __init__(self, text: str, events: Iterator[Any]) -> None:
        self.text = text
        self.events = events
        self.anchors: dict[str | None, tuple[Node, str]] = {}

    def node(self, event: Any) -> Node:
        """Return the node that starts with an event."""
        return self._node_and_text(event)[0]

    def _node_and_text(self, event: Any) -> tuple[Node, str]:
        """Return the node that starts with an event, and its text if it is a scalar."""
        start, end = event.start_mark.index, event.end_mark.index
        if isinstance(event, yaml.AliasEvent):
            node, scalar = self.anchors[event.anchor]
            return Node(node.kind, start, end, ALIAS, node.children), scalar
        scalar = ""
        if isinstance(event, yaml.ScalarEvent):
            scalar = str(event.value)
            node = Node("scalar", start, _scalar_end(self.text, start, end, event.style), event.style or "")
        elif isinstance(event, yaml.MappingStartEvent):
            node = self._read_collection("object", event, yaml.MappingEndEvent)
        else:
            node = self._read_collection("array", event, yaml.SequenceEndEvent)
        if event.anchor is not None:
            self.anchors[event.anchor] = node, scalar
        return node, scalar

    def _read_collection(self, kind: NodeKind, begins: Any, ends: Any) -> Node:
        """Return a collection with its children."""
        node = Node(kind, begins.start_mark.index, begins.end_mark.index)
        event: Any = next(self.events)
        while not isinstance(event, ends):
            node.children.append(self._read_child(kind, event, len(node.children)))
            event = next(self.events)
        node.end = event.end_mark.index
        node.style = "flow" if begins.flow_style else "block"
        if node.style == "block" and node.children:
            node.end = node.children[-1].node.end
        return node

    def _read_child(self, kind: NodeKind, event: Any, index: int) -> ChildNode:
        start = event.start_mark.index
        if kind == "array":
            return ChildNode(start, index, start, self.node(event))
        _, name = self._node_and_text(event)
        return ChildNode(start, name, event.end_mark.index, self.node(next(self.events)))


def _scalar_end(text: str, start: int, end: int, style: str | None) -> int:
    """Return the end of a scalar: of block text without trailing blank lines, unless it keeps them."""
    if style not in ("|", ">"):
        return end
    scalar = text[start:end]
    if "+" in scalar.split("\n", 1)[0].split("#", 1)[0]:
        return start + max(scalar.rfind("\n"), 0)
    return start + len(scalar.rstrip())


class Position(NamedTuple):
    """Line and column, both from 1."""

    line: int
    column: int


def text_position(text: str, offset: int) -> Position:
    """Return the line and column of an offset."""
    return Position(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


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
        node, offset = self._root, self._root.start
        for key in path:
            child = node.child(key)
            if child is None:
                break
            node, offset = child.node, child.start
        return text_position(self._text, offset)
