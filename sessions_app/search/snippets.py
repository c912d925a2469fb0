"""Snippets: the part of a text around a search match, with the matches marked. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

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
    excerpt = text[start:end]
    parts = list(_split_at_matches(excerpt, pattern)) if pattern else [(excerpt, False)]
    if start:
        parts = [("…", False), *parts]
    if end < len(text):
        parts = [*parts, ("…", False)]
    return _join_parts((re.sub(r"\s+", " ", piece), matches) for piece, matches in parts if piece)


def _word_pattern(words: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern that matches any of the words; between the words of a phrase any punctuation may stand."""
    forms = [
        r"[\W_]*".join(map(re.escape, pieces)) for word in words if (pieces := _WORD_PARTS.findall(word))
    ]
    return re.compile("|".join(sorted(forms, key=len, reverse=True)), re.IGNORECASE) if forms else None


def _split_at_matches(text: str, pattern: re.Pattern[str]) -> Iterator[SnippetPart]:
    at = 0
    for match in pattern.finditer(text):
        yield text[at : match.start()], False
        yield match[0], True
        at = match.end()
    yield text[at:], False


def _join_parts(pieces: Iterable[SnippetPart]) -> list[SnippetPart]:
    """Join adjacent parts that both match or both do not."""
    joined: list[SnippetPart] = []
    for text, matches in pieces:
        if joined and joined[-1][1] == matches:
            joined[-1] = (joined[-1][0] + text, matches)
        else:
            joined.append((text, matches))
    return joined
