"""Two JSON values compared line by line, for people: strings by their lines and sentences, the rest as indented JSON.

Pure.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice

BRIEF = 120
"""Characters of JSON up to which old and new stand on one line."""

MOST_LINES = 2_000
"""Lines of a value that are compared; of a longer one only the beginnings are shown."""

MOST_CHARACTERS = 400_000
"""Characters of a value that are compared."""

LINE_LIMIT = 100
"""Characters of a line; longer ones are cut into sentences and pieces."""

SHOWN_LINES, CONTEXT = 400, 3
"""Lines of a difference that are shown, and those around what differs."""

_SENTENCES = re.compile(r"[^.!?。！？]*[.!?。！？]+[\s]*|[^.!?。！？]+")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a comparison. `mark` is "added", "removed", "same", or "skipped" for a stretch left out."""

    mark: str
    text: str = ""


def is_brief(old: str | None, new: str | None) -> bool:
    """Tell whether two values fit on one line; None stands for no value."""
    return len(old or "") + len(new or "") <= BRIEF


def lines(old: str | None, new: str | None) -> list[Line]:
    """Return the comparison of two JSON texts; None stands for no value.

    Values too long to compare are shown by their beginnings, the old one first.
    """
    both_text = all(text is None or text.startswith('"') for text in (old, new))
    before, after = _lines_of(old, both_text), _lines_of(new, both_text)
    if before is None or after is None:
        return beginnings(old, new)
    return _cut(_compared(before, after))


def beginnings(old: str | None, new: str | None) -> list[Line]:
    """Return how two values begin, the old one first, and a line that says so."""
    cut = [*_beginning("removed", old), *_beginning("added", new)]
    return [*cut, Line("skipped", "Only the beginnings: the values are too long to compare here.")]


def _lines_of(text: str | None, as_text: bool) -> list[str] | None:
    if text is None:
        return []
    if len(text) > MOST_CHARACTERS:
        return None
    value = json.loads(text)
    shown = value if as_text else json.dumps(value, ensure_ascii=False, indent=2)
    found = [piece for line in shown.split("\n") for piece in _pieces(line)]
    return found if len(found) <= MOST_LINES else None


def _pieces(line: str) -> list[str]:
    """Return a line, a long one by its sentences, so that a change in one leaves the others alone."""
    if len(line) <= LINE_LIMIT:
        return [line]
    return [
        sentence[start : start + LINE_LIMIT]
        for sentence in _SENTENCES.findall(line)
        for start in range(0, len(sentence), LINE_LIMIT)
    ]


def _compared(before: list[str], after: list[str]) -> list[Line]:
    found: list[Line] = []
    for group in SequenceMatcher(None, before, after).get_grouped_opcodes(CONTEXT):
        if found or group[0][1] > 0:
            found.append(Line("skipped"))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                found += [Line("same", text) for text in before[i1:i2]]
                continue
            found += [Line("removed", text) for text in before[i1:i2]]
            found += [Line("added", text) for text in after[j1:j2]]
        end = group[-1][2]
    if found and end < len(before):
        found.append(Line("skipped"))
    return found


def _cut(found: list[Line]) -> list[Line]:
    if len(found) <= SHOWN_LINES:
        return found
    return [
        *found[:SHOWN_LINES],
        Line("skipped", f"{len(found) - SHOWN_LINES:,} more lines differ or surround it."),
    ]


def _beginning(mark: str, text: str | None) -> list[Line]:
    if text is None:
        return []
    return [Line(mark, piece) for piece in islice(_pieces(text[: LINE_LIMIT * 10]), 10)]
