"""In-place editing of YAML: comments, order, quotes and blank lines stay, new values are written in block style.

Only the lines of changed values change. (ruamel.yaml's round trip writes the whole file anew: indentation, spacing in
flow collections, folded lines, escapes and spellings such as `~` or `True` change, and duplicate keys are dropped.)
Aliases are not followed; the caller compares the value of the new text with the intended one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from evals_app.files import json_edit
from evals_app.files.pairing import is_same_json, pair_items
from evals_app.files.plain_yaml import dump_yaml
from evals_app.files.syntax_tree import ALIAS, ChildNode, Node, parse_tree


class UneditableYaml(ValueError):
    """The text uses a construct that cannot be edited in place."""


class _Splice(NamedTuple):
    start: int
    end: int
    text: str


def rewrite_yaml(text: str, old: Any, new: Any) -> str:
    """Return a YAML text of `old`, changed to `new` with as few changed lines as possible.

    Raises:
        UneditableYaml: a changed value cannot be edited in place, for instance because it has an anchor.
        ValueError: a new value cannot be written in YAML.
    """
    root = parse_tree(text, "yaml")
    if root.style == "flow":
        return json_edit.rewrite_json(text, json.loads(text), new)  # YAML that is JSON; other text raises
    crlf = "\r\n" in text
    plain = text.replace("\r\n", "\n") if crlf else text
    writer = _YamlWriter(plain, parse_tree(plain, "yaml") if crlf else root)
    changed = _apply_splices(plain, 0, len(plain), list(writer.changes(old, new)))
    return changed.replace("\n", "\r\n") if crlf else changed


def _apply_splices(text: str, start: int, end: int, splices: list[_Splice]) -> str:
    """Return a part of a text with its splices applied."""
    pieces, offset = [], start
    for splice in sorted(splices):
        if splice.start < offset:
            raise UneditableYaml("two changes meet in one place")
        pieces += [text[offset : splice.start], splice.text]
        offset = splice.end
    return "".join([*pieces, text[offset:end]])


class _YamlWriter:
    """Computes the splices that change a text to a new value."""

    def __init__(self, text: str, root: Node) -> None:
        self.text = text
        self.root = root
        self.indented = any(_has_indented_list(node, text) for node in _walk_nodes(root))

    def changes(self, old: Any, new: Any) -> Iterator[_Splice]:
        """Yield the splices of the whole text."""
        if not self._is_entered(self.root, old, new):
            raise UneditableYaml("the file as a whole would be another kind of value")
        yield from self._edit_inside(self.root, old, new)

    def _is_entered(self, node: Node, old: Any, new: Any) -> bool:
        """Tell whether a value stays a block collection, so that only its children change."""
        if node.style != "block" or not new or type(old) is not type(new):
            return False
        if isinstance(new, dict):
            return any(child.key in new for child in node.children)
        return isinstance(new, list)

    def _edit_inside(self, node: Node, old: Any, new: Any) -> Iterator[_Splice]:
        if isinstance(new, dict):
            yield from self._edit_mapping(node, old, new)
        else:
            yield from self._edit_sequence(node, old, new)

    def _in_place(self, value: Node, old: Any, new: Any) -> Iterable[_Splice] | None:
        """Return the splices inside a value or on its line; None if its lines must be rewritten."""
        self._check_own(value)
        if self._is_entered(value, old, new):
            return self._edit_inside(value, old, new)
        short = self._inline_text(value, new)
        if short is None:
            return None
        return [_Splice(value.start, value.end, short if value.start < value.end else f" {short}")]

    # --- objects ---

    def _edit_mapping(self, node: Node, old: dict[str, Any], new: dict[str, Any]) -> Iterator[_Splice]:
        for index, child in enumerate(node.children):
            name = str(child.key)
            if name not in new:
                yield self._remove_entry(node, index)
            elif not is_same_json(old[name], new[name]):
                yield from self._edit_member(child, old[name], new[name])
        added = {name: value for name, value in new.items() if name not in old}
        if added:
            yield self._lines_after(
                node.end, self._column_at(node.children[0].start), dump_text(added, self.indented)
            )

    def _edit_member(self, child: ChildNode, old: Any, new: Any) -> Iterator[_Splice]:
        value = child.node
        in_place = self._in_place(value, old, new)
        if in_place is not None:
            yield from in_place
            return
        text = dump_text({str(child.key): new}, self.indented)
        pad = self._column_at(child.start)
        yield _Splice(
            child.start, self._line_end(value.end), self._block_text(text, pad, value.end).lstrip(" ")
        )

    def _remove_entry(self, node: Node, index: int) -> _Splice:
        """Return the splice that removes an entry with its lines."""
        child = node.children[index]
        begins = self._line_start(child.start)
        if not self.text[begins : child.start].strip(" "):
            return _Splice(begins, self._next_line(child.node.end), "")
        # It shares its line with a list's dash, which the next entry takes over.
        if index + 1 == len(node.children):
            raise UneditableYaml("an entry that stands on the line of another cannot be left out")
        return _Splice(child.start, node.children[index + 1].start, "")

    # --- lists ---

    def _edit_sequence(self, node: Node, old: list[Any], new: list[Any]) -> Iterator[_Splice]:
        old_indexes = pair_items(old, new)
        within = [
            list(self._edit_item(node.children[index], old[index], item)) if index is not None else []
            for index, item in zip(old_indexes, new, strict=True)
        ]
        if old_indexes == list(range(len(old))):
            yield from (splice for splices in within for splice in splices)
            return
        pieces = self._item_pieces(node)
        column = self._column_at(node.start)
        sections = self._comment_sections(pieces, set(old_indexes))
        texts: list[str] = []
        for index, item, splices in zip(old_indexes, new, within, strict=True):
            if index is None:
                texts.append(self._set_in(self._new_item(node, item), column) + "\n")
            else:
                start, _, end = pieces[index]
                piece = sections[index] + _apply_splices(self.text, start, end, splices)
                texts.append(piece if piece.endswith("\n") else piece + "\n")
        block = "".join(texts) + sections[len(pieces)]
        end = pieces[-1][2]
        ends_line = self.text[:end].endswith("\n")
        yield _Splice(pieces[0][0], end, block if ends_line else block.removesuffix("\n"))

    def _edit_item(self, child: ChildNode, old: Any, new: Any) -> Iterator[_Splice]:
        if is_same_json(old, new):
            return
        value = child.node
        in_place = self._in_place(value, old, new)
        if in_place is not None:
            yield from in_place
            return
        pad = self._column_at(value.start) - 2
        text = (
            self._block_text(dump_text([new], self.indented), pad, value.end).lstrip(" ").removeprefix("- ")
        )
        yield _Splice(value.start, self._line_end(value.end), text)

    def _new_item(self, node: Node, item: Any) -> str:
        """Return the lines of a new item, in flow style if all other items are."""
        if isinstance(item, dict | list) and all(child.node.style == "flow" for child in node.children):
            return f"- {dump_yaml(item, flow=True).strip()}"
        return dump_text([item], self.indented)

    def _item_pieces(self, node: Node) -> list[tuple[int, int, int]]:
        """Return (start, dash, end) of each item's lines, including comments and blank lines above."""
        pieces: list[tuple[int, int, int]] = []
        offset = self._line_start(node.start)
        if self.text[offset : node.start].strip(" "):
            raise UneditableYaml("a list that begins on the line of another cannot be reordered")
        offset = self._comments_above(offset)
        for child in node.children:
            dash = self._find_dash(pieces[-1][2] if pieces else node.start)
            end = self._next_line(max(child.node.end, dash + 1))
            pieces.append((offset, dash, end))
            offset = end
        return pieces

    def _find_dash(self, offset: int) -> int:
        while offset < len(self.text):
            if self.text[offset] == "-":
                return offset
            offset = self._next_line(offset) if self.text[offset] == "#" else offset + 1
        raise UneditableYaml("an item without a dash")

    def _comments_above(self, offset: int) -> int:
        """Return the start of the comment lines directly above a line, except a comment that starts the file."""
        column = len(self.text[offset:]) - len(self.text[offset:].lstrip(" "))
        above = offset
        while above:
            start = self._line_start(above - 1)
            line = self.text[start:above]
            if not line.lstrip(" ").startswith("#") or len(line) - len(line.lstrip(" ")) != column:
                return above
            above = start
        return offset

    def _comment_sections(
        self, pieces: list[tuple[int, int, int]], kept_indexes: set[int | None]
    ) -> list[str]:
        """Return the texts before each piece and after the last: section comments of removed items."""
        sections, carried = [], ""
        for index, (start, dash, _) in enumerate(pieces):
            sections.append(carried if index in kept_indexes else "")
            carried = "" if index in kept_indexes else carried + self._kept_comments(start, dash)
        return [*sections, carried]

    def _kept_comments(self, start: int, dash: int) -> str:
        """Return the comments above a removed item that stay: those separated by a blank line."""
        above = self.text[start : self._line_start(dash)]
        section, apart, _ = above.rpartition("\n\n")
        return f"{section}{apart}" if section.strip() else ""

    # --- texts ---

    def _check_own(self, value: Node) -> None:
        """Check that a value may be changed.

        Raises:
            UneditableYaml: the value is an alias, or has an anchor or a tag.
        """
        if value.style == ALIAS:
            raise UneditableYaml("a value that is an alias of another cannot be changed in place")
        if value.start < value.end and self.text[value.start] in "&!":
            raise UneditableYaml("a value with an anchor or a tag cannot be changed in place")

    def _inline_text(self, node: Node, new: Any) -> str | None:
        """Return a value's text for the line of the old value; None if it needs its own lines."""
        if node.style in ("|", ">", "block") or (isinstance(new, str) and "\n" in new):
            return None
        if isinstance(new, dict | list):
            stays_short = node.style == "flow" and node.children
            return dump_yaml(new, flow=True).strip() if stays_short or not new else None
        quotes = node.style if node.style in ("'", '"') and isinstance(new, str) else None
        return dump_yaml(new, quotes=quotes).removesuffix("...\n").strip()

    def _block_text(self, text: str, column: int, ends: int) -> str:
        """Return lines that replace a value, with its trailing comment."""
        first, _, remaining_lines = text.partition("\n")
        behind = self.text[ends : self._line_end(ends)].strip()
        if behind.startswith("#"):
            first += f"  {behind}"
        return self._set_in(f"{first}\n{remaining_lines}" if remaining_lines else first, column)

    def _lines_after(self, ends: int, column: int, text: str) -> _Splice:
        offset = self._next_line(ends)
        lines = self._set_in(text, column) + "\n"
        if not self.text[:offset].endswith("\n"):
            lines = "\n" + lines.removesuffix("\n")
        return _Splice(offset, offset, lines)

    def _set_in(self, text: str, column: int) -> str:
        return "\n".join(" " * column + line if line else line for line in text.split("\n"))

    def _column_at(self, offset: int) -> int:
        return offset - self._line_start(offset)

    def _line_start(self, offset: int) -> int:
        return self.text.rfind("\n", 0, offset) + 1

    def _line_end(self, offset: int) -> int:
        newline = self.text.find("\n", offset)
        return len(self.text) if newline < 0 else newline

    def _next_line(self, offset: int) -> int:
        return min(self._line_end(offset) + 1, len(self.text))


def dump_text(value: Any, indented: bool) -> str:
    """Return a collection in block style without the last newline."""
    return dump_yaml(value, indented=indented).removesuffix("\n")


def _walk_nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _walk_nodes(child.node)


def _has_indented_list(node: Node, text: str) -> bool:
    """Tell whether an entry of this object is a list with indented items."""
    return node.kind == "object" and any(
        child.node.kind == "array"
        and child.node.style == "block"
        and text[child.node.start] == "-"  # an anchor stands behind the key
        and child.node.start - text.rfind("\n", 0, child.node.start)
        > child.start - text.rfind("\n", 0, child.start)
        for child in node.children
    )
