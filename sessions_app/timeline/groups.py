"""Timeline items grouped by invocation: rows of a call and its results, and folds of less interesting rows. Pure.

A timeline is a list of groups (consecutive events of one invocation), a group a list of rows, and a row an event with
the events that answer its calls, or a fold. Every event is in exactly one row, in the order of the events' numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from sessions_app.problems.problem_queries import ShownProblem
from sessions_app.store.models import Run
from sessions_app.timeline.event_window import InvocationTotals
from sessions_app.timeline.items import TimelineItem
from sessions_app.timeline.lanes import lanes_at
from sessions_app.timeline.run_marks import RunMark

LEAST_FOLDED = 2
"""Minimum number of rows of a fold: a single row takes no more space than a fold."""

PIECES = "pieces"
"""Reason for the fold of the stored pieces of a streamed event."""


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """An event and the events that answer its calls, or a fold of several such rows.

    Attributes:
        items: events in order.
        reason: reason for folding: `rewound-SEQ`, `summarized-SEQ`, `quiet` or `pieces`; empty: never folded.
        is_fold: the row is a fold.
    """

    items: list[TimelineItem]
    reason: str = ""
    is_fold: bool = False

    @property
    def head(self) -> TimelineItem:
        """First event of the row."""
        return self.items[0]

    @property
    def seqs(self) -> list[int]:
        """Numbers of the events of the row."""
        return [item.event.seq for item in self.items]

    @property
    def superseded_by(self) -> str:
        """Number of the event that rewound or summarized the row; empty if none did."""
        return self.reason.partition("-")[2]

    @property
    def error_count(self) -> int:
        """Number of errors among the events, without answers that the model ended early."""
        return sum(item.is_error and not item.is_blocked for item in self.items)


@dataclass(slots=True)
class InvocationGroup:
    """Consecutive events of one invocation.

    Attributes:
        continued: the invocation started before the window.
        gap: idle seconds before the group, if they are marked; else 0.
        title: number and first words of the turn, or what else the invocation is.
        runs: its runs, except those that simply succeeded.
        first_runs: its first run with each code version.
        behind: runs without events that ended after this group.
        problems: its errors and warnings; in the last group of the invocation.
    """

    invocation_id: str
    rows: list[TimelineRow]
    totals: InvocationTotals | None
    continued: bool = False
    gap: float = 0.0
    title: str = ""
    runs: list[RunMark] = field(default_factory=list)
    first_runs: list[Run] = field(default_factory=list)
    behind: list[RunMark] = field(default_factory=list)
    problems: Sequence[ShownProblem] = ()

    @property
    def items(self) -> list[TimelineItem]:
        """Events of the group in order."""
        return [item for row in self.rows for item in row.items]

    @property
    def has_path(self) -> bool:
        """Tell whether several agents, or nodes of a workflow, took part."""
        several = self.totals is not None and len(self.totals.speakers) > 1
        return bool(self.invocation_id) and (several or any(item.node for item in self.items))


def group_items(items: Iterable[TimelineItem], totals: dict[str, InvocationTotals]) -> list[InvocationGroup]:
    """Group items by invocation, with calls and their results in one row.

    A result joins the row of its call if it follows it directly and all its answers belong to it. Answers of a person
    have their own row.
    """
    groups: list[InvocationGroup] = []
    for item in items:
        name = item.event.invocation_id
        invocation_totals = totals.get(name)
        speakers = invocation_totals.speakers if invocation_totals else ()
        if not groups or groups[-1].invocation_id != name:
            continued = invocation_totals is not None and invocation_totals.first_seq < item.event.seq
            groups.append(
                InvocationGroup(name, [], invocation_totals, continued, gap=0.0 if continued else item.gap)
            )
            item.gap = item.gap if continued else 0.0
        if invocation_totals and item.elapsed and not item.is_user:
            now = item.event.timestamp
            item.elapsed = invocation_totals.pauses.work(now - item.elapsed, now)
        item.lanes = lanes_at(item.event, speakers, item.before, transfers=item.after_transfer)
        rows = groups[-1].rows
        if rows and _answers_row(item, rows[-1]):
            item.earlier_calls = []
            rows[-1].items.append(item)
        else:
            rows.append(TimelineRow([item]))
    return groups


def fold_rows(rows: Sequence[TimelineRow]) -> list[TimelineRow]:
    """Return the rows of a group. Consecutive rows with the same reason for folding become one fold."""
    folded: list[TimelineRow] = []
    for reason, neighbors in groupby(_with_reasons(rows), lambda row: row.reason):
        similar = list(neighbors)
        if reason and len(similar) >= LEAST_FOLDED:
            similar = [TimelineRow([item for row in similar for item in row.items], reason, is_fold=True)]
        folded += similar
    return folded


def _with_reasons(rows: Sequence[TimelineRow]) -> Iterator[TimelineRow]:
    """Yield rows with their reason for folding. Pieces of a stream are folded only if their whole event follows."""
    whole_at = {_speaker_key(row): index for index, row in enumerate(rows) if not row.head.is_chunk}
    for index, row in enumerate(rows):
        reasons = {item.fold_reason for item in row.items}
        if row.head.is_chunk and not row.head.fold_reason and whole_at.get(_speaker_key(row), -1) > index:
            reasons = {PIECES}
        yield TimelineRow(row.items, reasons.pop() if len(reasons) == 1 else "")


def _speaker_key(row: TimelineRow) -> tuple[str, str]:
    return row.head.event.author, row.head.event.branch


def _answers_row(item: TimelineItem, row: TimelineRow) -> bool:
    """Tell whether an event follows a row directly and only answers its calls."""
    if item.is_user or not item.summary.answer_ids or item.summary.call_ids:
        return False
    calls = {call_id for row_item in row.items for call_id in row_item.summary.call_ids}
    is_next = item.event.seq == row.items[-1].event.seq + 1 and item.event.branch == row.head.event.branch
    return is_next and calls.issuperset(item.summary.answer_ids)
