"""Search the keys and values of a JSON value, in document order. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sessions_app import scopes
from sessions_app.presentation.json_pointer import pointer_of

MAX_HITS = 10_000
"""Hits that are counted."""


@dataclass(frozen=True, slots=True)
class JsonHit:
    """An entry whose key or value matches; `number` counts from 1, `pointer` is RFC 6901."""

    number: int
    pointer: str


@dataclass(frozen=True, slots=True)
class JsonSearchResult:
    """The number of hits, and one of them. `capped`: there are more hits than were counted."""

    count: int
    capped: bool
    hit: JsonHit | None


def search_json(value: Any, pattern: re.Pattern[str], number: int = 1) -> JsonSearchResult:
    """Return the number of matching entries, and the entry with this number, or the last one if it is too large.

    An entry counts once even if it matches several times. Values of any depth are searched.
    """
    count = 0
    hit: JsonHit | None = None
    for path in _iter_matches(value, pattern):
        if count == MAX_HITS:
            return JsonSearchResult(count, True, hit)
        count += 1
        if count <= max(1, number):
            hit = JsonHit(count, pointer_of(*path))
    return JsonSearchResult(count, False, hit)


def _iter_matches(value: Any, pattern: re.Pattern[str]) -> Iterator[list[str]]:
    """Yield the path to each matching entry. The list is reused; do not change it."""
    path: list[str] = []
    if not isinstance(value, dict | list):
        if pattern.search(_text(value)):
            yield path
        return
    stack = [_entries(value)]
    while stack:
        entry = next(stack[-1], None)
        if entry is None:
            stack.pop()
            if path:
                path.pop()
            continue
        name, child, is_key = entry
        is_branch = isinstance(child, dict | list)
        path.append(name)
        if (is_key and pattern.search(name)) or (not is_branch and pattern.search(_text(child))):
            yield path
        if is_branch:
            stack.append(_entries(child))
        else:
            path.pop()


def _entries(branch: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yield (name, value, whether the name is a key and not an index)."""
    if isinstance(branch, dict):
        return ((str(name), value, True) for name, value in branch.items())
    return ((str(number), value, False) for number, value in enumerate(branch))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else scopes.dumps(value)
