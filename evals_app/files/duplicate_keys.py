"""Detection of duplicate keys in JSON and YAML. Parsers silently use the last one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from evals_app.files.positions import position_of
from evals_app.files.syntax_tree import Child, Node, parse_tree


def load_json(text: str) -> tuple[Any, bool]:
    """Parse JSON and tell whether an object has a duplicate key.

    Raises:
        json.JSONDecodeError: the text is no JSON.
    """
    repeated = False

    def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        members = dict(pairs)
        repeated = repeated or len(members) < len(pairs)
        return members

    return json.loads(text, object_pairs_hook=build_object), repeated


def find_duplicates(text: str, kind: str) -> list[tuple[Child, Child]]:
    """Return (first entry, duplicate) for each duplicate key of a text (json or yaml)."""
    return list(_find_duplicates(parse_tree(text, kind)))


def describe(text: str, first: Child, again: Child) -> str:
    """Return a warning with line and column for a duplicate key."""
    place, before = position_of(text, again.start), position_of(text, first.start)
    return (
        f"Line {place.line}, column {place.column}: the key {str(again.key)!r} stands on line {before.line} "
        "already. The last one counts."
    )


def _find_duplicates(node: Node) -> Iterator[tuple[Child, Child]]:
    """Yield (first entry, duplicate) in order. Aliases are not followed."""
    firsts: dict[Any, Child] = {}
    for child in node.children if node.style != "alias" else ():
        if node.kind == "object" and firsts.setdefault(child.key, child) is not child:
            yield firsts[child.key], child
        yield from _find_duplicates(child.node)
