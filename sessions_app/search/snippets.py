"""Snippets: the part of a text around a search match, with the matches marked. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

SnippetPart = tuple[str, bool]
"""A part of a text, and whether it matches."""

BEFORE, LENGTH = 60, 200
"""Characters shown before the first match, and in all."""

_WORD_PARTS = re.compile(r"[^\W_]+")


def make_snippet(text: str, words: Iterable[str]) -> list[SnippetPart]:
    """Return the text around its first match, split into matching and other parts; white space is collapsed.

    Without a literal match (search compares normalized words) the snippet is the start of the text.
    """
    pattern = _word_pattern(words)
    first = pattern.search(text) if pattern else None
    start = max(0, first.start() - BEFORE) if first else 0
    end = start + LENGTH
    excerpt = f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
    pieces = pattern.split(excerpt) if pattern else [excerpt]
    return [(re.sub(r"\s+", " ", piece), number % 2 == 1) for number, piece in enumerate(pieces) if piece]


def has_match(text: str, words: Iterable[str]) -> bool:
    """Tell whether a snippet of a text would have a match."""
    pattern = _word_pattern(words)
    return pattern is not None and pattern.search(text) is not None


def _word_pattern(words: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern of one group that matches any of the words, or phrases with any punctuation between words."""
    forms = [
        r"[\W_]*".join(map(re.escape, pieces)) for word in words if (pieces := _WORD_PARTS.findall(word))
    ]
    return re.compile(f"({'|'.join(sorted(forms, key=len, reverse=True))})", re.IGNORECASE) if forms else None
