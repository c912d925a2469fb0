"""Compare two JSON values line by line: strings by lines and sentences, other values as indented JSON. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice

BRIEF_CHARACTERS = 120
"""Characters of JSON up to which both values are shown on one line."""

MAX_LINES = 2_000
"""Lines of a value that are compared; of a longer value only the start is shown."""

MAX_CHARACTERS = 400_000
"""Characters of a value that are compared."""

LINE_LIMIT = 100
"""Characters of a line; longer lines are split into sentences and chunks."""

MAX_SHOWN_LINES, CONTEXT_LINES = 400, 3
"""Lines of a comparison that are shown, and unchanged lines around each difference."""

_SENTENCES = re.compile(r"[^.!?。！？]*[.!?。！？]+[\s]*|[^.!?。！？]+")


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a comparison. `mark` is "added", "removed", "same", or "skipped" for omitted lines."""

    mark: str
    text: str = ""


def is_brief(old: str | None, new: str | None) -> bool:
    """Tell whether two values fit on one line; None means no value."""
    return len(old or "") + len(new or "") <= BRIEF_CHARACTERS


def diff_lines(old: str | None, new: str | None) -> list[DiffLine]:
    """Return the comparison of two JSON texts; None means no value.

    Of values that are too long to compare only the start is shown, the old value first.
    """
    both_text = all(text is None or text.startswith('"') for text in (old, new))
    before, after = _value_lines(old, both_text), _value_lines(new, both_text)
    if before is None or after is None:
        return diff_beginnings(old, new)
    return _truncate_lines(_diff_lines(before, after))


def diff_beginnings(old: str | None, new: str | None) -> list[DiffLine]:
    """Return the start of two values, the old one first, and a line that explains it."""
    cut = [*_first_lines("removed", old), *_first_lines("added", new)]
    return [*cut, DiffLine("skipped", "Only the beginnings: the values are too long to compare here.")]


def _value_lines(text: str | None, as_text: bool) -> list[str] | None:
    if text is None:
        return []
    if len(text) > MAX_CHARACTERS:
        return None
    value = json.loads(text)
    display_text = value if as_text else json.dumps(value, ensure_ascii=False, indent=2)
    result = [piece for line in display_text.split("\n") for piece in _split_line(line)]
    return result if len(result) <= MAX_LINES else None


def _split_line(line: str) -> list[str]:
    """Split a long line into sentences, so that a change affects only its sentence."""
    if len(line) <= LINE_LIMIT:
        return [line]
    return [
        sentence[start : start + LINE_LIMIT]
        for sentence in _SENTENCES.findall(line)
        for start in range(0, len(sentence), LINE_LIMIT)
    ]


def _diff_lines(before: list[str], after: list[str]) -> list[DiffLine]:
    diff: list[DiffLine] = []
    for group in SequenceMatcher(None, before, after).get_grouped_opcodes(CONTEXT_LINES):
        if diff or group[0][1] > 0:
            diff.append(DiffLine("skipped"))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                diff += [DiffLine("same", text) for text in before[i1:i2]]
                continue
            diff += [DiffLine("removed", text) for text in before[i1:i2]]
            diff += [DiffLine("added", text) for text in after[j1:j2]]
        end = group[-1][2]
    if diff and end < len(before):
        diff.append(DiffLine("skipped"))
    return diff


def _truncate_lines(diff: list[DiffLine]) -> list[DiffLine]:
    if len(diff) <= MAX_SHOWN_LINES:
        return diff
    return [
        *diff[:MAX_SHOWN_LINES],
        DiffLine("skipped", f"{len(diff) - MAX_SHOWN_LINES:,} more lines differ or surround it."),
    ]


def _first_lines(mark: str, text: str | None) -> list[DiffLine]:
    if text is None:
        return []
    return [DiffLine(mark, piece) for piece in islice(_split_line(text[: LINE_LIMIT * 10]), 10)]
