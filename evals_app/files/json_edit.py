"""In-place editing of JSON: unchanged values keep their characters, new ones are written like their neighbors."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from evals_app.files.pairing import is_same_json, pair_items
from evals_app.files.syntax_tree import ChildNode, Node, parse_tree

DEFAULT_INDENT = "  "


def rewrite_json(text: str, old: Any, new: Any) -> str:
    """Return a JSON text of `old`, changed to `new` with as few changes as possible.

    Raises:
        ValueError: a new value cannot be written in JSON, or the text is nested too deeply.
    """
    root = parse_tree(text, "json")
    return text[: root.start] + _JsonWriter.of(text, root).value(root, old, new, "") + text[root.end :]


@dataclass(frozen=True)
class _JsonWriter:
    """Writes values in the style of a text.

    Attributes:
        indent: of one level; "" if the text is on one line.
        colon: separator between key and value.
        ascii_only: characters beyond ASCII are escaped.
        newline: line ending.
    """

    text: str
    indent: str
    colon: str
    ascii_only: bool
    newline: str

    @classmethod
    def of(cls, text: str, root: Node) -> _JsonWriter:
        """Return a writer with the style of a text."""
        lead = text[root.start + 1 : root.children[0].start] if root.children else "\n" + DEFAULT_INDENT
        indent = lead.rpartition("\n")[2] if "\n" in lead else ""
        key = next((child for child in root.children if isinstance(child.key, str)), None)
        return cls(
            text,
            indent,
            text[key.key_end : key.node.start] if key else ": ",
            text.isascii() and "\\u" in text,
            "\r\n" if "\r\n" in text else "\n",
        )

    def value(self, node: Node, old: Any, new: Any, pad: str) -> str:
        """Return the text of a value. `pad` is the indentation of its line."""
        if is_same_json(old, new):
            return self.text[node.start : node.end]
        if node.kind == "object" and isinstance(old, dict) and isinstance(new, dict) and new:
            return self._write_object(node, old, new, pad)
        if node.kind == "array" and isinstance(old, list) and isinstance(new, list) and new:
            return self._write_array(node, old, new, pad)
        return self.dump(new, pad if self._is_spread(node) or not node.children else None)

    def _write_object(self, node: Node, old: dict[str, Any], new: dict[str, Any], pad: str) -> str:
        shape = self._node_shape(node, pad)
        remaining = [child for child in node.children if child.key in new]
        names = {str(child.key) for child in remaining}
        texts = [
            self.text[child.start : child.node.start] + self._write_member(node, child, old, new, shape)
            for child in remaining
        ]
        texts += [
            f"{self._write_string(name)}{self.colon}{self.dump(value, shape.pad)}"
            for name, value in new.items()
            if name not in names
        ]
        return self._join_entries(node, [*remaining, *[None] * (len(texts) - len(remaining))], texts, shape)

    def _write_member(self, node: Node, child: ChildNode, old: Any, new: Any, shape: _Shape) -> str:
        if node.child(child.key) is not child:  # an earlier one of the same name, which no reader sees
            return self.text[child.node.start : child.node.end]
        return self.value(child.node, old[child.key], new[child.key], shape.pad or "")

    def _write_array(self, node: Node, old: list[Any], new: list[Any], pad: str) -> str:
        shape = self._node_shape(node, pad)
        old_indexes = pair_items(old, new)
        children = [None if index is None else node.children[index] for index in old_indexes]
        texts = [
            self.dump(item, shape.pad)
            if child is None or index is None
            else self.value(child.node, old[index], item, shape.pad or "")
            for item, index, child in zip(new, old_indexes, children, strict=True)
        ]
        return self._join_entries(node, children, texts, shape)

    def _join_entries(
        self, node: Node, children: list[ChildNode | None], texts: list[str], shape: _Shape
    ) -> str:
        """Return entries in brackets. Each keeps its leading white space; new ones get the usual one."""
        leads = {
            child.start: self._leading_space(node, index)
            for index, child in enumerate(node.children)
            if index
        }
        joined = shape.first + texts[0]
        for child, text in zip(children[1:], texts[1:], strict=True):
            joined += "," + (leads.get(child.start, shape.next) if child else shape.next) + text
        return f"{self.text[node.start]}{joined}{shape.last}{self.text[node.end - 1]}"

    def _leading_space(self, node: Node, index: int) -> str:
        """Return the white space between the comma (or bracket) and an entry."""
        before = node.children[index - 1].node.end if index else node.start
        return self.text[before : node.children[index].start].partition(
            "," if index else self.text[node.start]
        )[2]

    def _is_spread(self, node: Node) -> bool:
        """Tell whether a collection has a line for each entry."""
        return bool(node.children) and "\n" in self._leading_space(node, 0)

    def _node_shape(self, node: Node, pad: str) -> _Shape:
        if not node.children:
            if not self.indent:
                return _Shape("", "", self._colon_gap(), None)
            inner = f"{self.newline}{pad}{self.indent}"
            return _Shape(inner, f"{self.newline}{pad}", inner, pad + self.indent)
        first = self._leading_space(node, 0)
        last = self.text[node.children[-1].node.end : node.end - 1]
        usual = (
            self._leading_space(node, 1)
            if len(node.children) > 1
            else first
            if "\n" in first
            else self._colon_gap()
        )
        return _Shape(first, last, usual, first.rpartition("\n")[2] if "\n" in first else None)

    def _colon_gap(self) -> str:
        return " " if self.colon.endswith(" ") else ""

    def _write_string(self, value: str) -> str:
        return json.dumps(value, ensure_ascii=self.ascii_only)

    def dump(self, value: Any, pad: str | None) -> str:
        """Return a new value on its own lines indented by `pad`, or on one line if `pad` is None."""
        options: dict[str, Any] = {"ensure_ascii": self.ascii_only, "allow_nan": False}
        if pad is None or not self.indent:
            return json.dumps(value, separators=("," + self._colon_gap(), self.colon), **options)
        text = json.dumps(value, indent=self.indent, **options)
        return re.sub("\n", self.newline + pad, text)


@dataclass(frozen=True)
class _Shape:
    """White space of a collection: before its first entry, at its end, before other entries; indentation."""

    first: str
    last: str
    next: str
    pad: str | None
