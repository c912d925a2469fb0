"""Diff of a file's text before and after a change, as lines for a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest

from sessions_app.presentation.value_diff import DiffLine

CONTEXT = 3
MAX_COMPARED_LINES = 4_000
"""Most lines to compare; longer differences are shown as removed and added as a whole."""

MAX_SHOWN_LINES = 800
LONG_LINE = 240
CONTEXT_CHARS = 80
"""Characters shown around the difference in a long line."""


def diff_lines(before: str, after: str) -> list[DiffLine]:
    """Return the changed lines of a text with context and line numbers."""
    old, new = before.splitlines(), after.splitlines()
    start = _common_prefix(old, new)
    end = _common_prefix(old[start:][::-1], new[start:][::-1])
    start, end = max(start - CONTEXT, 0), max(end - CONTEXT, 0)
    diff = list(_hunks(old[start : len(old) - end], new[start : len(new) - end], start))
    if not diff and before != after:
        return [DiffLine("skipped", "Only the ends of lines change.")]
    if len(diff) > MAX_SHOWN_LINES:
        rest = len(diff) - MAX_SHOWN_LINES
        diff = [
            *diff[:MAX_SHOWN_LINES],
            DiffLine("skipped", f"{rest:,} more lines change or surround what does."),
        ]
    return diff


def count_changes(diff: Sequence[DiffLine]) -> tuple[int, int]:
    """Return the numbers of added and removed lines."""
    marks = [line.mark for line in diff]
    return marks.count("added"), marks.count("removed")


def _common_prefix(first: Sequence[str], right: Sequence[str]) -> int:
    return next((at for at, (one, other) in enumerate(zip_longest(first, right)) if one != other), len(first))


def _hunks(old: list[str], new: list[str], start: int) -> Iterator[DiffLine]:
    if len(old) + len(new) > MAX_COMPARED_LINES:
        yield DiffLine("skipped", f"line {start + 1:,}")
        yield from (DiffLine("removed", _shorten(line)) for line in old)
        yield from (DiffLine("added", _shorten(line)) for line in new)
        return
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
        yield DiffLine("skipped", f"line {start + group[0][1] + 1:,}")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (DiffLine("same", _shorten(line)) for line in old[i1:i2])
                continue
            pairs = list(zip_longest(old[i1:i2], new[j1:j2]))
            yield from (
                DiffLine("removed", _shorten(line, other)) for line, other in pairs if line is not None
            )
            yield from (
                DiffLine("added", _shorten(other, line)) for line, other in pairs if other is not None
            )


def _shorten(line: str, other: str | None = None) -> str:
    """Return a line, shortened to its difference from the other line, or to its start."""
    if len(line) <= LONG_LINE:
        return line
    if other is None:
        return f"{line[:LONG_LINE]}…"
    start = _common_prefix(line, other)
    end = min(_common_prefix(line[start:][::-1], other[start:][::-1]), len(line) - start)
    begins, ends = (
        max(start - CONTEXT_CHARS, 0),
        min(len(line) - end + CONTEXT_CHARS, len(line), start + LONG_LINE * 4),
    )
    return f"{'…' if begins else ''}{line[begins:ends]}{'…' if ends < len(line) else ''}"
