"""Verdicts in the replies of judges, read more strictly than ADK reads them. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

EXCERPT_LENGTH = 80
_SCORES = {"yes": 1.0, "no": 0.0}
_CLEAR_VERDICT = re.compile(
    r"""
    (?:[^\w?]|_)* (yes|no) (?: (?:[^\w?]|_)* $ | [^\w\s.,;:!(–—?/-]* (?:\s*[.,;:!(]|\s[–—-]\s) )
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""The word alone, or followed by a sign and an explanation."""

_DOUBT = (
    r"\W*(?:but|(?:al)?though|however|except|unless|yet|or|maybe|perhaps|partial(?:ly)?|partly|in part|mostly|somewhat"
    r"|almost|nearly|kind of|sort of|to an? \w+|to some|for the most"
)
_RESERVATIONS = {
    "yes": re.compile(
        rf"{_DOUBT}|no|not|only|i(?: am|['’]m) not|in some|with (?:\w+ )?(?:caveat|exception|reserv)\w*)\b",
        re.I,
    ),
    "no": re.compile(rf"{_DOUBT}|yes)\b", re.I),
}
"""Beginnings of explanations that take the verdict before them back."""


def is_clear(verdict: str, score: float | None) -> bool:
    """Tell whether a verdict on a rubric says what ADK read from it.

    ADK (`DefaultAutoRaterResponseParser`) takes every line that contains "yes", such as "not yes", for yes, and other
    lines that contain "no", such as "unknown", for no.
    """
    match = _CLEAR_VERDICT.match(verdict)
    if match is None:
        return False
    word = match[1].lower()
    return _SCORES[word] == score and not _RESERVATIONS[word].match(verdict, match.end())


def pair_sentences(
    sentences: Sequence[str], results: Sequence[Mapping[str, str | None]]
) -> list[Mapping[str, str | None] | None]:
    """Return the judge's result for each sentence of an answer; None for a sentence that the judge left out.

    A result that repeats no sentence belongs to the first sentence without one: judges paraphrase.
    """
    keys = [_comparable_text(sentence) for sentence in sentences]
    by_sentence: dict[str, list[Mapping[str, str | None]]] = defaultdict(list)
    paraphrases: list[Mapping[str, str | None]] = []
    for result in results:
        key = _comparable_text(result["sentence"] or "")
        (by_sentence[key] if key in keys else paraphrases).append(result)
    sources = ((by_sentence[key] or paraphrases) for key in keys)
    return [source.pop(0) if source else None for source in sources]


def excerpt(text: str) -> str:
    """Return the beginning of a text as one line."""
    line = " ".join(text.split())
    return f"{line[:EXCERPT_LENGTH]}{'…' * (len(line) > EXCERPT_LENGTH)}"


def quote_judge(reply: str) -> str:
    """Return a sentence with what a judge said."""
    said = excerpt(reply)
    return f"The judge said {f'“{said}”' if said else 'nothing'}."


def _comparable_text(sentence: str) -> str:
    return " ".join(re.findall(r"\w+", sentence.lower()))
