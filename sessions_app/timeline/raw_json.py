"""Stored JSON of an event as a tree: collapsed, expanded within limits, or expanded at a search hit."""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.utils.safestring import SafeString

from sessions_app.models import Event
from sessions_app.presentation import highlighting, json_search, json_tree
from sessions_app.presentation.json_search import JsonSearchResult

DEPTH = 6
"""Depth to which the tree is initially expanded."""


@dataclass(frozen=True, slots=True)
class RawJson:
    """The tree and the result of a search in it; None without a search."""

    tree: SafeString
    text: str
    size: int
    found: JsonSearchResult | None

    @property
    def number(self) -> int:
        """Number of the open hit, 0 if there is none."""
        return self.found.hit.number if self.found and self.found.hit else 0

    @property
    def previous(self) -> int:
        """Number of the previous hit, wrapping around."""
        return self.number - 1 if self.number > 1 else self._count

    @property
    def next(self) -> int:
        """Number of the next hit, wrapping around."""
        return self.number % self._count + 1 if self._count else 0

    @property
    def _count(self) -> int:
        return self.found.count if self.found else 0


def read_raw_json(
    event: Event, url: str, text: str = "", number: int = 1, *, is_open: bool = False
) -> RawJson:
    """Return the JSON tree of an event whose `data` is loaded.

    Args:
        event: the event.
        url: address that serves subtrees.
        text: text to search for in keys and values.
        number: number of the hit to open.
        is_open: expand all branches within the tree's limits; ignored with a search.
    """
    body = json.loads(event.data)
    size = len(event.data)
    if not text:
        tree = (
            json_tree.render_all(body, url=url) if is_open else json_tree.render(body, url=url, depth=DEPTH)
        )
        return RawJson(tree, "", size, None)
    pattern = highlighting.compile_pattern(text)
    result = json_search.search_json(body, pattern, number)
    if result.hit is None:
        return RawJson(json_tree.render(body, url=url, depth=DEPTH), text, size, result)
    return RawJson(json_tree.render_at(body, result.hit, url=url, pattern=pattern), text, size, result)
