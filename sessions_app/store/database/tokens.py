"""Tokenizer for full-text search in any script. Pure.

Text is normalized to NFKC and casefolded. Scripts with spaces yield words: runs of letters, digits and marks. Scripts
without spaces (Japanese, Chinese, Thai …), and Korean, which attaches particles to words, yield overlapping pairs:
東京都 becomes 東京 京都 都. Every character starts exactly one token, so a query of one character is a prefix, of two
characters a token, and a longer one a phrase of adjacent tokens.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from itertools import chain, groupby, islice, pairwise

MAX_TOKENS = 1_000_000
"""Tokens of a text that are indexed; later ones are not found. They take some seconds."""

MAX_POSITION, MAX_POSITIONS = 16_383, 255
"""Positions of a tsvector, and those of one of its words. PostgreSQL ignores others silently."""

TSVECTOR_BYTES = 1_000_000
"""Bytes of different words in a tsvector, which can hold 1 MiB with their positions. Later words are not found."""

LONG_TEXT = "\ue001"
"""Word of a tsvector that lacks positions. In its text PostgreSQL finds a phrase by its tokens alone. No word of a text
contains this character."""

MAX_PHRASES = 100
"""Phrases of a query that are used. An agent may search with a whole long message."""

TOKEN_BYTES = 64
"""Longest token in UTF-8 bytes; a longer word is truncated."""


class _ScriptKind(Enum):
    GAP = 0
    WORD = 1
    PAIRS = 2


_PAIRED_RANGES = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1100, 0x11FF),  # Hangul letters
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),  # 々 〆 〇
    (0x3021, 0x31FF),  # kana, Bopomofo, Hangul letters
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0xA4CF),  # Han, Yi
    (0xA960, 0xA97F),  # Hangul letters
    (0xAC00, 0xD7FF),  # Hangul
    (0xF900, 0xFAFF),  # Han
    (0x20000, 0x3FFFF),  # Han
)
_INVISIBLE = dict.fromkeys(
    chain((0x00AD, 0x200C, 0x200D, 0x2060, 0xFEFF), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
)
"""Characters inside words that only affect rendering: soft hyphens, joiners, variation selectors."""


@cache
def _script_kind(char: str) -> _ScriptKind:
    code = ord(char)
    if unicodedata.category(char)[0] not in "LMN" and not 0x20000 <= code <= 0x3FFFF:
        return _ScriptKind.GAP
    return (
        _ScriptKind.PAIRS
        if any(first <= code <= last for first, last in _PAIRED_RANGES)
        else _ScriptKind.WORD
    )


@dataclass(frozen=True, slots=True)
class Phrase:
    """Tokens that must be adjacent. With `prefix` the last one is only the start of a token."""

    tokens: tuple[str, ...]
    prefix: bool = False


def tokenize(text: str) -> list[str]:
    """Return the tokens of a text, in order."""
    return list(islice(_iter_tokens(text), MAX_TOKENS))


def parse_phrases(query: str) -> list[Phrase]:
    """Return the phrases of a query: one for each part between spaces."""
    parsed = (_parse_piece(piece) for piece in normalize(query).split())
    return list(islice(dict.fromkeys(phrase for phrase in parsed if phrase), MAX_PHRASES))


def parse_phrase(text: str, *, is_prefix: bool = False) -> Phrase | None:
    """Return a whole text as one phrase; None if it contains no word. With `is_prefix` its last word is a start."""
    phrase = _parse_piece(normalize(text))
    return replace(phrase, prefix=True) if phrase and is_prefix else phrase


def contains_phrase(words: Sequence[str], phrase: Phrase) -> bool:
    """Tell whether tokens contain a phrase, by the same rule as the indexes."""
    length = len(phrase.tokens)
    return any(
        _is_at(words, start, phrase)
        for start in range(len(words) - length + 1)
        if words[start][0] == phrase.tokens[0][0]
    )


def single_tokens(phrases: Iterable[Phrase]) -> list[Phrase]:
    """Return each token of the phrases as its own phrase, for searches that rank partial matches.

    Single characters of scripts without spaces are dropped if there are longer tokens: nearly every text has them.
    """
    single = dict.fromkeys(
        Phrase((token,), phrase.prefix and token is phrase.tokens[-1])
        for phrase in phrases
        for token in phrase.tokens
    )
    telling = [phrase for phrase in single if not _is_lone(phrase.tokens[0])]
    return (telling or list(single))[:MAX_PHRASES]


def normalize(text: str) -> str:
    """Return the normalized form in which texts and queries are compared."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded).translate(_INVISIBLE)


def fts5_match(phrases: Iterable[Phrase], *, every: bool = True) -> str:
    """Return SQLite's FTS5 expression for all phrases, or for any of them. Tokens contain no quotes."""
    terms = (f'"{" ".join(phrase.tokens)}"{" *" if phrase.prefix else ""}' for phrase in phrases)
    return (" AND " if every else " OR ").join(terms)


def tsquery(phrases: Iterable[Phrase], *, every: bool = True, label: str = "") -> str:
    """Return PostgreSQL's tsquery for all phrases, or for any of them; with a label only for words of that label.

    Tokens contain no quotes.
    """
    return (" & " if every else " | ").join(f"({_tsquery_phrase(phrase, label)})" for phrase in phrases)


def tsvector(words: Iterable[str], labelled: Collection[str] = ()) -> str:
    """Return PostgreSQL's tsvector of a text's tokens.

    Args:
        words: the tokens.
        labelled: the tokens that get the label A.
    """
    positions: dict[str, list[int]] = {}
    free_bytes, is_whole = TSVECTOR_BYTES, True
    for position, word in enumerate(words, 1):
        known = positions.get(word)
        if known is None:
            free_bytes -= len(word.encode()) + _WORD_OVERHEAD
            if free_bytes < 0:
                continue
            known = positions[word] = [min(position, MAX_POSITION)]
        elif position <= MAX_POSITION and len(known) < MAX_POSITIONS:
            known.append(position)
        else:
            is_whole = False
        is_whole = is_whole and position <= MAX_POSITION
    mark = [] if is_whole else [f"'{LONG_TEXT}'"]
    return " ".join(
        [
            *mark,
            *(
                _tsvector_word(word, positions_of_word, word in labelled)
                for word, positions_of_word in positions.items()
            ),
        ]
    )


_WORD_OVERHEAD = 6
"""Bytes of a word in a tsvector beside its text: the number of its positions, one of them, and padding."""


def _tsvector_word(word: str, positions: Sequence[int], is_labelled: bool) -> str:
    return f"'{word}':" + ",".join(f"{position}{'A' if is_labelled else ''}" for position in positions)


def tsvector_without_positions(words: Iterable[str]) -> str:
    """Return PostgreSQL's tsvector of tokens without positions."""
    return " ".join(f"'{word}'" for word in words)


def _tsquery_phrase(phrase: Phrase, label: str) -> str:
    mark = f":{'*' if phrase.prefix else ''}{label}" if phrase.prefix or label else ""
    words = [f"'{token}'" for token in phrase.tokens]
    adjacent = " <-> ".join(words) + mark
    return adjacent if len(words) == 1 else f"{adjacent} | ('{LONG_TEXT}' & {' & '.join(words)}{mark})"


def _is_at(words: Sequence[str], start: int, phrase: Phrase) -> bool:
    *whole_tokens, last = phrase.tokens
    end = start + len(whole_tokens)
    if list(words[start:end]) != whole_tokens:
        return False
    return words[end].startswith(last) if phrase.prefix else words[end] == last


def _iter_tokens(text: str) -> Iterator[str]:
    for match in _RUN_BETWEEN_ASCII_GAPS.finditer(normalize(text)):
        run = match[0]
        if run.isascii():  # most texts: much faster than by character
            yield run[:TOKEN_BYTES]
            continue
        for kind, chars in groupby(run, _script_kind):
            if kind is not _ScriptKind.GAP:
                yield from _split_run(kind, "".join(chars))


_RUN_BETWEEN_ASCII_GAPS = re.compile(r"[0-9A-Za-z\x80-\U0010ffff]+")


def _split_run(kind: _ScriptKind, run: str) -> Iterator[str]:
    if kind is _ScriptKind.WORD:
        yield run if len(run) * 4 <= TOKEN_BYTES else run.encode()[:TOKEN_BYTES].decode(errors="ignore")
    else:
        yield from (first + second for first, second in pairwise(run))
        yield run[-1]


def _parse_piece(piece: str) -> Phrase | None:
    """Return the phrase of one part of a query. Its last token may be a prefix."""
    words = list(islice(_iter_tokens(piece), MAX_PHRASES))
    if not words:
        return None
    if not _is_lone(words[-1]):
        return Phrase(tuple(words))
    if len(words) > 1 and len(words[-2]) == 2 and words[-2][1] == words[-1] and _is_paired(words[-2][0]):
        return Phrase(tuple(words[:-1]))
    return Phrase(tuple(words), prefix=True)


def _is_lone(token: str) -> bool:
    return len(token) == 1 and _is_paired(token)


def _is_paired(char: str) -> bool:
    return _script_kind(char) is _ScriptKind.PAIRS
