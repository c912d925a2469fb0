"""Report of an import: counts, changes, conflicts and unreadable rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_LINES = 1000
"""Most lines that a list of a report stores; further lines are only counted."""


@dataclass(slots=True)
class ReportLines:
    """List of lines of a report: stores the first `MAX_LINES`, counts all."""

    lines: list[str] = field(default_factory=list)
    total: int = 0

    def add(self, line: str) -> None:
        """Count a line, and store it unless the list is full."""
        self.total += 1
        if len(self.lines) < MAX_LINES:
            self.lines.append(line)

    def __iter__(self) -> Iterator[str]:
        return iter(self.lines)

    def __bool__(self) -> bool:
        return self.total > 0


@dataclass(slots=True)
class ImportReport:
    """Result of an import.

    Attributes:
        created: number of new sessions.
        extended: number of sessions of an earlier import that got more events.
        unchanged: number of sessions without new events.
        events: number of events written.
        artifacts: number of artifact versions written.
        eval_runs: number of eval runs written.
        remarks: notes about the whole source.
        changed: data stored differently than in the source, with reasons.
        conflicts: stored data that differs from the source and was not changed.
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
    remarks: ReportLines = field(default_factory=ReportLines)
    changed: ReportLines = field(default_factory=ReportLines)
    conflicts: ReportLines = field(default_factory=ReportLines)
    unread: ReportLines = field(default_factory=ReportLines)

    @property
    def is_complete(self) -> bool:
        """True if all data was imported."""
        return not (self.conflicts or self.unread)

    def sections(self) -> Iterator[tuple[str, ReportLines]]:
        """Yield the headings and lines of all lists that are not empty."""
        for heading, lines in (
            ("Notes", self.remarks),
            ("Changed during the import", self.changed),
            ("Not changed", self.conflicts),
            ("Could not be read", self.unread),
        ):
            if lines:
                yield heading, lines

    def counts(self) -> str:
        """Return the counts as a sentence."""
        items = [f"{self.events} event(s)"]
        items += [f"{self.artifacts} artifact version(s)"] if self.artifacts else []
        items += [f"{self.eval_runs} eval run(s)"] if self.eval_runs else []
        verb = "would be imported" if self.dry_run else "imported"
        return (
            f"{self.created} new session(s), {self.extended} extended, {self.unchanged} unchanged;"
            f" {' and '.join(items)} {verb}"
        )
