"""Words of a text and of a query, for full-text search in any script. Pure.

Text is compared in NFKC, casefolded. Scripts with spaces give words: runs of letters, digits and marks. Scripts
without (Japanese, Chinese, Thai …), and Korean, whose particles cling to its words, give overlapping pairs: 東京都
is 東京 京都 都. So every character starts exactly one token, and a query of one character is a prefix, one of two a
token, a longer one a phrase of tokens side by side.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain, groupby, islice, pairwise

MAX_TOKENS = 10_000
"""Tokens of a text that are indexed; what comes later in it is not found. A tsvector holds 16,383 positions."""

MAX_PHRASES = 100
"""Phrases of a query that are looked for. An agent may search with the whole of a long message."""

TOKEN_BYTES = 64
"""Longest token in UTF-8 bytes; a longer word is found by its start."""


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
"""Marks inside words that change only how they look: soft hyphens, joiners, variation selectors."""


class _ScriptKinds(dict[str, _ScriptKind]):
    """The kind of each character, worked out once."""

    def __missing__(self, char: str) -> _ScriptKind:
        kind = self[char] = _script_kind(char)
        return kind


def _script_kind(char: str) -> _ScriptKind:
    code = ord(char)
    if unicodedata.category(char)[0] not in "LMN" and not 0x20000 <= code <= 0x3FFFF:
        return _ScriptKind.GAP
    return (
        _ScriptKind.PAIRS
        if any(first <= code <= last for first, last in _PAIRED_RANGES)
        else _ScriptKind.WORD
    )


_kinds = _ScriptKinds()


@dataclass(frozen=True, slots=True)
class Phrase:
    """Tokens that must stand side by side. `prefix` says that the last one is only the start of a token."""

    tokens: tuple[str, ...]
    prefix: bool = False


def tokenize(text: str) -> list[str]:
    """Return what a text is indexed by, in its order."""
    return list(islice(_iter_tokens(text), MAX_TOKENS))


def parse_phrases(query: str) -> list[Phrase]:
    """Return what a query asks for: one phrase for each piece of it between spaces."""
    found = (_parse_piece(piece) for piece in normalize(query).split())
    return list(islice(dict.fromkeys(each for each in found if each), MAX_PHRASES))


def parse_phrase(text: str) -> Phrase | None:
    """Return the phrase of a text whose words stand side by side; None when no word is in it."""
    return _parse_piece(normalize(text))


def contains_phrase(words: Sequence[str], wanted: Phrase) -> bool:
    """Tell whether a text of these tokens holds a phrase, as the indexes do."""
    length = len(wanted.tokens)
    return any(
        _is_at(words, start, wanted)
        for start in range(len(words) - length + 1)
        if words[start][0] == wanted.tokens[0][0]
    )


def single_tokens(wanted: Iterable[Phrase]) -> list[Phrase]:
    """Return each token of the phrases on its own, to find what is only partly the same, as recall needs.

    Lone characters of scripts without spaces are left out beside longer tokens: nearly every text has them.
    """
    single = dict.fromkeys(
        Phrase((token,), each.prefix and token is each.tokens[-1]) for each in wanted for token in each.tokens
    )
    telling = [each for each in single if not _is_lone(each.tokens[0])]
    return (telling or list(single))[:MAX_PHRASES]


def normalize(text: str) -> str:
    """Return a text in the one form in which texts and queries are compared."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded).translate(_INVISIBLE)


def fts5_match(wanted: Iterable[Phrase], *, every: bool = True) -> str:
    """Return SQLite's match expression for every phrase, or for any of them. Tokens hold no quotes."""
    written = (f'"{" ".join(each.tokens)}"{" *" if each.prefix else ""}' for each in wanted)
    return (" AND " if every else " OR ").join(written)


def tsquery(wanted: Iterable[Phrase], *, every: bool = True, label: str = "") -> str:
    """Return PostgreSQL's tsquery for every phrase, or for any of them; only for words of a label, if one is given.

    Tokens hold no quotes.
    """
    return (" & " if every else " | ").join(f"({_tsquery_phrase(each, label)})" for each in wanted)


def tsvector(words: Iterable[str], labelled: Collection[str] = ()) -> str:
    """Return PostgreSQL's tsvector of a text's tokens, in the `simple` configuration: as they are.

    Args:
        words: the tokens.
        labelled: those of them that get the label A.
    """
    marks = dict.fromkeys(labelled, "A")
    return " ".join(f"'{word}':{position}{marks.get(word, '')}" for position, word in enumerate(words, 1))


def tsvector_without_positions(words: Iterable[str]) -> str:
    """Return PostgreSQL's tsvector of tokens without their places."""
    return " ".join(f"'{word}'" for word in words)


def _tsquery_phrase(wanted: Phrase, label: str) -> str:
    mark = f":{'*' if wanted.prefix else ''}{label}" if wanted.prefix or label else ""
    return " <-> ".join(f"'{token}'" for token in wanted.tokens) + mark


def _is_at(words: Sequence[str], start: int, wanted: Phrase) -> bool:
    *whole, last = wanted.tokens
    end = start + len(whole)
    if list(words[start:end]) != whole:
        return False
    return words[end].startswith(last) if wanted.prefix else words[end] == last


def _iter_tokens(text: str) -> Iterator[str]:
    for kind, chars in groupby(normalize(text), _kinds.__getitem__):
        if kind is not _ScriptKind.GAP:
            yield from _split_run(kind, "".join(chars))


def _split_run(kind: _ScriptKind, run: str) -> Iterator[str]:
    if kind is _ScriptKind.WORD:
        yield run if len(run) * 4 <= TOKEN_BYTES else run.encode()[:TOKEN_BYTES].decode(errors="ignore")
    else:
        yield from (first + second for first, second in pairwise(run))
        yield run[-1]


def _parse_piece(piece: str) -> Phrase | None:
    """Return the phrase of a piece of a query. What it ends with may go on in the text."""
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
    return _kinds[char] is _ScriptKind.PAIRS
