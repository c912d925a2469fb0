"""Timeline items grouped by invocation, with each call and its results in one row. Pure.

A timeline is a list of groups (consecutive events of one invocation), a group a list of rows, and a row an event with
the events that answer its calls. Every event is in exactly one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sessions_app.models import Run
from sessions_app.problems.problem_queries import ShownProblem
from sessions_app.timeline.event_window import InvocationTotals
from sessions_app.timeline.items import TimelineItem
from sessions_app.timeline.lanes import lanes_at
from sessions_app.timeline.run_marks import RunMark


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """An event, the events that answer its calls, and the chunks that it was streamed in."""

    head: TimelineItem
    answers: list[TimelineItem] = field(default_factory=list)
    chunks: list[TimelineItem] = field(default_factory=list)

    @property
    def items(self) -> list[TimelineItem]:
        """Its events in the order shown."""
        return [self.head, *self.answers, *self.chunks]


@dataclass(slots=True)
class InvocationGroup:
    """Consecutive events of one invocation.

    Attributes:
        continued: the invocation started before the window.
        gap: idle seconds before the group, if they are marked; else 0.
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
    runs: list[RunMark] = field(default_factory=list)
    first_runs: list[Run] = field(default_factory=list)
    behind: list[RunMark] = field(default_factory=list)
    problems: Sequence[ShownProblem] = ()

    @property
    def items(self) -> list[TimelineItem]:
        """Its events in the order shown."""
        return [item for row in self.rows for item in row.items]

    @property
    def has_path(self) -> bool:
        """Tell whether several agents, or nodes of a workflow, took part."""
        several = self.totals is not None and len(self.totals.speakers) > 1
        return bool(self.invocation_id) and (several or any(item.node for item in self.items))


def group_items(items: Iterable[TimelineItem], totals: dict[str, InvocationTotals]) -> list[InvocationGroup]:
    """Group items by invocation, with calls and their results in one row.

    A result joins the row of its call if all its answers belong to that one event of the same group. Answers of a
    person have their own row.
    """
    groups: list[InvocationGroup] = []
    caller: dict[str, TimelineRow] = {}
    chunks: dict[tuple[str, str], list[TimelineRow]] = {}
    for item in items:
        name = item.event.invocation_id
        whole = totals.get(name)
        speakers = whole.speakers if whole else ()
        if not groups or groups[-1].invocation_id != name:
            continued = whole is not None and whole.first_seq < item.event.seq
            groups.append(InvocationGroup(name, [], whole, continued, gap=0.0 if continued else item.gap))
            item.gap = item.gap if continued else 0.0
            caller, chunks = {}, {}
        if whole and item.elapsed and not item.is_user:
            now = item.event.timestamp
            item.elapsed = whole.pauses.work(now - item.elapsed, now)
        call_row = _find_call_row(item, caller)
        at = call_row.head.event.seq if call_row else 0
        item.lanes = lanes_at(item.event, speakers, item.before, transfers=item.after_transfer, at=at)
        if call_row:
            item.earlier_calls = []
            call_row.answers.append(item)
            continue
        row = TimelineRow(item)
        _fold(row, groups[-1], chunks)
        caller.update(dict.fromkeys(item.summary.call_ids, row))
    return groups


def _fold(row: TimelineRow, group: InvocationGroup, chunks: dict[tuple[str, str], list[TimelineRow]]) -> None:
    """Add a row to its group, and fold preceding chunks of the same author and branch into it."""
    speaker = (row.head.event.author, row.head.event.branch)
    if row.head.is_chunk:
        chunks.setdefault(speaker, []).append(row)
    else:
        for piece in chunks.pop(speaker, []):
            group.rows.remove(piece)
            row.chunks.append(piece.head)
    group.rows.append(row)


def _find_call_row(item: TimelineItem, caller: dict[str, TimelineRow]) -> TimelineRow | None:
    if item.is_user or not item.summary.answer_ids or item.summary.call_ids:
        return None
    rows = [caller.get(call_id) for call_id in item.summary.answer_ids]
    return rows[0] if all(row is not None and row is rows[0] for row in rows) else None
