"""The part of a text that a search found, with what matches marked. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

SnippetPart = tuple[str, bool]
"""A piece of a text, and whether it matches."""

BEFORE, LENGTH = 60, 200
"""Characters shown before the first match, and in all."""

_WORD_PARTS = re.compile(r"[^\W_]+")


def make_snippet(text: str, words: Iterable[str]) -> list[SnippetPart]:
    """Return the text around its first match, cut into pieces that match and that do not; blanks are run together.

    Where nothing matches letter by letter (search compares normal forms) that is the start of the text.
    """
    pattern = _word_pattern(words)
    first = pattern.search(text) if pattern else None
    start = max(0, first.start() - BEFORE) if first else 0
    end = start + LENGTH
    shown = text[start:end]
    found = list(_split_at_matches(shown, pattern)) if pattern else [(shown, False)]
    if start:
        found = [("…", False), *found]
    if end < len(text):
        found = [*found, ("…", False)]
    return _join_parts((re.sub(r"\s+", " ", piece), matches) for piece, matches in found if piece)


def _word_pattern(words: Iterable[str]) -> re.Pattern[str] | None:
    """Return what any of the words looks like in a text; of a phrase only letters and digits count."""
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
    """Run pieces of one kind together."""
    found: list[SnippetPart] = []
    for text, matches in pieces:
        if found and found[-1][1] == matches:
            found[-1] = (found[-1][0] + text, matches)
        else:
            found.append((text, matches))
    return found
