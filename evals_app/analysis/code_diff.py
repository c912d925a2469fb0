"""Difference of an agent's code between the commits of two runs. Read-only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from evals_app.models import EvalRun
from sessions_app.agents.folder import configured_folder
from sessions_app.agents.revisions import MAX_DIFF_BYTES, diff_commits
from sessions_app.presentation.value_diff import MAX_SHOWN_LINES, DiffLine
from sessions_app.store.errors import DevUIError
from sessions_app.store.redaction import redact_text

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)")
_MARKS = {"+": "added", "-": "removed", " ": "same"}


@dataclass(frozen=True)
class CodeDiff:
    """Changed lines of an agent's folder, if any. `has_uncommitted`: a run had changes that no commit has."""

    lines: list[DiffLine]
    has_uncommitted: bool


def read_code_diff(baseline_run: EvalRun, run: EvalRun) -> CodeDiff | None:
    """Return the difference of the agent's code between two runs; None if git does not have both commits."""
    revisions = [baseline_run.git_revision, run.git_revision]
    folder = configured_folder()
    if folder is None or not all(revisions) or baseline_run.code_version == run.code_version:
        return None
    try:
        text = diff_commits(folder.app_folder(run.app_name), *revisions)
    except DevUIError:
        return None
    lines = list(_parse_diff(text))
    if len(lines) > MAX_SHOWN_LINES or len(text.encode()) >= MAX_DIFF_BYTES:
        lines = [
            *lines[:MAX_SHOWN_LINES],
            DiffLine("skipped", "The rest is not shown; git shows the whole difference."),
        ]
    has_uncommitted = any("+" in revision for revision in revisions)
    return CodeDiff(lines, has_uncommitted) if lines or has_uncommitted else None


def _parse_diff(text: str) -> Iterator[DiffLine]:
    """Yield the lines of git's difference: the name of each file, and its changed lines without credentials."""
    is_in_hunk = False
    for line in text.split("\n"):  # a line of code may have other line breaks, such as a form feed
        if line.startswith("diff --git "):
            is_in_hunk = False
            yield DiffLine("skipped", line.rpartition(" b/")[2])
        elif hunk := _HUNK.match(line):
            is_in_hunk = True
            yield DiffLine("skipped", f"line {hunk[1]}")
        elif is_in_hunk and line[:1] in _MARKS:
            yield DiffLine(_MARKS[line[0]], redact_text(line[1:].removesuffix("\r")))
        elif line.startswith("Binary files "):
            yield DiffLine("skipped", "A binary file differs.")
