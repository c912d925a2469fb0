"""What became of an import, for a person to read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_LINES = 1000
"""Longest list of a kind that a report keeps; the rest is only counted."""


@dataclass(slots=True)
class ReportLines:
    """Lines of a report: the first `MOST_LINES` are kept, all are counted."""

    kept: list[str] = field(default_factory=list)
    total: int = 0

    def add(self, line: str) -> None:
        """Count a line, and keep it if there is room."""
        self.total += 1
        if len(self.kept) < MAX_LINES:
            self.kept.append(line)

    def __iter__(self) -> Iterator[str]:
        return iter(self.kept)

    def __bool__(self) -> bool:
        return self.total > 0


@dataclass(slots=True)
class ImportReport:
    """What came, what was changed on the way, what was left alone and what could not be read.

    Attributes:
        created: sessions that are new here.
        extended: sessions of an earlier import that got more events.
        unchanged: sessions that were here already.
        events: events written.
        artifacts: versions of artifacts written.
        eval_runs: runs of evalsets written.
        files: what came of each file of a folder.
        remarks: what to know about the source as a whole.
        changed: what is other than in the source, and why.
        conflicts: what is here with other content and was left as it is.
        unread: rows that could not be read.
    """

    format: str
    location: str
    dry_run: bool = False
    created: int = 0
    extended: int = 0
    unchanged: int = 0
    events: int = 0
    artifacts: int = 0
    eval_runs: int = 0
    files: ReportLines = field(default_factory=ReportLines)
    remarks: ReportLines = field(default_factory=ReportLines)
    changed: ReportLines = field(default_factory=ReportLines)
    conflicts: ReportLines = field(default_factory=ReportLines)
    unread: ReportLines = field(default_factory=ReportLines)

    @property
    def is_complete(self) -> bool:
        """Whether everything came."""
        return not (self.conflicts or self.unread)

    def sections(self) -> Iterator[tuple[str, ReportLines]]:
        """Yield the lists that are not empty, with their heading."""
        for heading, lines in (
            ("File by file", self.files),
            ("Good to know", self.remarks),
            ("Changed on the way", self.changed),
            ("Left as it is here", self.conflicts),
            ("Could not be read", self.unread),
        ):
            if lines:
                yield heading, lines

    def add(self, part: ImportReport, name: str) -> None:
        """Count what came of a part of the source, and tell it under the part's name."""
        self.files.add(f"{name}: {part.format}, {part.counts()}")
        for count in ("created", "extended", "unchanged", "events", "artifacts", "eval_runs"):
            setattr(self, count, getattr(self, count) + getattr(part, count))
        for heading in ("remarks", "changed", "conflicts", "unread"):
            mine, theirs = getattr(self, heading), getattr(part, heading)
            for line in theirs:
                mine.add(f"{name}: {line}")
            mine.total += theirs.total - len(theirs.kept)

    def counts(self) -> str:
        """Return how much came, as a sentence says it."""
        come = [f"{self.events} event(s)"]
        come += [f"{self.artifacts} artifact version(s)"] if self.artifacts else []
        come += [f"{self.eval_runs} eval run(s)"] if self.eval_runs else []
        verb = "would come" if self.dry_run else "came"
        return (
            f"{self.created} new session(s), {self.extended} extended, {self.unchanged} unchanged;"
            f" {' and '.join(come)} {verb}"
        )
