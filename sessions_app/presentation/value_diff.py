"""Two JSON values compared line by line, for people: strings by their lines and sentences, the rest as indented JSON.

Pure.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice

BRIEF_CHARACTERS = 120
"""Characters of JSON up to which old and new stand on one line."""

MAX_LINES = 2_000
"""Lines of a value that are compared; of a longer one only the beginnings are shown."""

MAX_CHARACTERS = 400_000
"""Characters of a value that are compared."""

LINE_LIMIT = 100
"""Characters of a line; longer ones are cut into sentences and pieces."""

MAX_SHOWN_LINES, CONTEXT_LINES = 400, 3
"""Lines of a difference that are shown, and those around what differs."""

_SENTENCES = re.compile(r"[^.!?。！？]*[.!?。！？]+[\s]*|[^.!?。！？]+")


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a comparison. `mark` is "added", "removed", "same", or "skipped" for a stretch left out."""

    mark: str
    text: str = ""


def is_brief(old: str | None, new: str | None) -> bool:
    """Tell whether two values fit on one line; None stands for no value."""
    return len(old or "") + len(new or "") <= BRIEF_CHARACTERS


def diff_lines(old: str | None, new: str | None) -> list[DiffLine]:
    """Return the comparison of two JSON texts; None stands for no value.

    Values too long to compare are shown by their beginnings, the old one first.
    """
    both_text = all(text is None or text.startswith('"') for text in (old, new))
    before, after = _lines_of(old, both_text), _lines_of(new, both_text)
    if before is None or after is None:
        return diff_beginnings(old, new)
    return _truncate_lines(_compare(before, after))


def diff_beginnings(old: str | None, new: str | None) -> list[DiffLine]:
    """Return how two values begin, the old one first, and a line that says so."""
    cut = [*_first_lines("removed", old), *_first_lines("added", new)]
    return [*cut, DiffLine("skipped", "Only the beginnings: the values are too long to compare here.")]


def _lines_of(text: str | None, as_text: bool) -> list[str] | None:
    if text is None:
        return []
    if len(text) > MAX_CHARACTERS:
        return None
    value = json.loads(text)
    shown = value if as_text else json.dumps(value, ensure_ascii=False, indent=2)
    found = [piece for line in shown.split("\n") for piece in _split_line(line)]
    return found if len(found) <= MAX_LINES else None


def _split_line(line: str) -> list[str]:
    """Return a line, a long one by its sentences, so that a change in one leaves the others alone."""
    if len(line) <= LINE_LIMIT:
        return [line]
    return [
        sentence[start : start + LINE_LIMIT]
        for sentence in _SENTENCES.findall(line)
        for start in range(0, len(sentence), LINE_LIMIT)
    ]


def _compare(before: list[str], after: list[str]) -> list[DiffLine]:
    found: list[DiffLine] = []
    for group in SequenceMatcher(None, before, after).get_grouped_opcodes(CONTEXT_LINES):
        if found or group[0][1] > 0:
            found.append(DiffLine("skipped"))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                found += [DiffLine("same", text) for text in before[i1:i2]]
                continue
            found += [DiffLine("removed", text) for text in before[i1:i2]]
            found += [DiffLine("added", text) for text in after[j1:j2]]
        end = group[-1][2]
    if found and end < len(before):
        found.append(DiffLine("skipped"))
    return found


def _truncate_lines(found: list[DiffLine]) -> list[DiffLine]:
    if len(found) <= MAX_SHOWN_LINES:
        return found
    return [
        *found[:MAX_SHOWN_LINES],
        DiffLine("skipped", f"{len(found) - MAX_SHOWN_LINES:,} more lines differ or surround it."),
    ]


def _first_lines(mark: str, text: str | None) -> list[DiffLine]:
    if text is None:
        return []
    return [DiffLine(mark, piece) for piece in islice(_split_line(text[: LINE_LIMIT * 10]), 10)]
