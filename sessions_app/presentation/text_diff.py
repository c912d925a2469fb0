"""Compare two texts word by word, or character by character in scripts without spaces. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher

MAX_WORDS = 3000
"""Most words that are compared; longer texts are returned without marks."""

_WORDS = re.compile(r"\s+|[぀-ヿ㐀-鿿가-힯฀-໿]|[^\W_]+|.", re.DOTALL)


@dataclass(frozen=True)
class DiffPiece:
    """A part of a text. With `differs` the other text has something else there."""

    text: str
    differs: bool


def compare_texts(expected: str, actual: str) -> tuple[list[DiffPiece], list[DiffPiece]]:
    """Return both texts in parts, with differences marked."""
    expected_words, actual_words = _WORDS.findall(expected), _WORDS.findall(actual)
    if len(expected_words) + len(actual_words) > MAX_WORDS:
        return [DiffPiece(expected, False)], [DiffPiece(actual, False)]
    ours: list[DiffPiece] = []
    theirs: list[DiffPiece] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(
        None, expected_words, actual_words, autojunk=False
    ).get_opcodes():
        differs = tag != "equal"
        if i1 < i2:
            ours.append(DiffPiece("".join(expected_words[i1:i2]), differs))
        if j1 < j2:
            theirs.append(DiffPiece("".join(actual_words[j1:j2]), differs))
    return ours, theirs
