"""Which events no longer count: rewound, or replaced by a summary in what the model sees.

Nothing is ever deleted. The rules are ADK's: `google/adk/events/_rewind_events.py` for rewinds, and the time
range of `EventCompaction` for compaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from sessions_app.events import as_seconds
from sessions_app.models import AgentSession, Event
from sessions_app.store.json_sql import IS_REWIND_OR_COMPACTION


@dataclass(frozen=True, slots=True)
class Rewind:
    """The events from `first` up to the rewind event at `seq` were taken back."""

    seq: int
    first: int


@dataclass(frozen=True, slots=True)
class CompactedSpan:
    """The events of a time span are given to the model as the summary that event `seq` carries."""

    seq: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class SupersededRanges:
    """The rewinds and compactions that touch a window of events."""

    rewinds: list[Rewind]
    compactions: list[CompactedSpan]

    def rewound_by(self, event: Event) -> int:
        """Return the seq of the rewind that took an event back, 0 when none did."""
        return next((mark.seq for mark in self.rewinds if mark.first <= event.seq <= mark.seq), 0)

    def taken_back_by(self, seq: int) -> tuple[int, int] | None:
        """Return the seqs of the first and the last event that the rewind at `seq` took back, None for none."""
        mark = next((mark for mark in self.rewinds if mark.seq == seq and mark.first < seq), None)
        return (mark.first, seq - 1) if mark else None

    def compacted_by(self, event: Event) -> int:
        """Return the seq of the newest compaction that covers an event, 0 when none does."""
        covering = (
            mark.seq
            for mark in self.compactions
            if event.seq < mark.seq and mark.start <= event.timestamp <= mark.end
        )
        return max(covering, default=0)


def find_superseded_ranges(session: AgentSession, first_seq: int) -> SupersededRanges:
    """Return the marks that may touch events from `first_seq` on: those carried by later events.

    One query, and one index seek for each rewind.
    """
    carriers = (
        Event.objects.filter(IS_REWIND_OR_COMPACTION, session=session, seq__gte=first_seq)
        .order_by("-seq")
        .values_list("seq", "data")
    )
    rewinds: list[tuple[int, str]] = []
    compactions = []
    for seq, data in carriers:
        actions = json.loads(data).get("actions") or {}
        if target := actions.get("rewindBeforeInvocationId"):
            rewinds.append((seq, target))
        if (span := actions.get("compaction")) and isinstance(span, dict):
            start, end = as_seconds(span.get("startTimestamp")), as_seconds(span.get("endTimestamp"))
            compactions.append(CompactedSpan(seq, start, end))
    return SupersededRanges(_effective_rewinds(session, rewinds), compactions)


def find_compacted_range(session: AgentSession, mark: CompactedSpan) -> tuple[int, int] | None:
    """Return the seqs of the first and the last event that a compaction sums up, None when there are none.

    Two queries that go back from it: it never reaches far beyond what it sums up.
    """
    seqs = (
        Event.objects.filter(session=session, seq__lt=mark.seq).order_by("-seq").values_list("seq", flat=True)
    )
    last = seqs.filter(timestamp__lte=mark.end).first()
    first = (seqs.filter(timestamp__lt=mark.start).first() or 0) + 1
    return (first, last) if last and first <= last else None


def _effective_rewinds(session: AgentSession, newest_first: Iterable[tuple[int, str]]) -> list[Rewind]:
    """Leave out rewinds that were themselves taken back, and those whose target never ran before them."""
    kept: list[Rewind] = []
    for seq, target in newest_first:
        if kept and seq >= kept[-1].first:
            continue
        first = (
            Event.objects.filter(session=session, invocation_id=target, seq__lt=seq)
            .order_by("seq")
            .values_list("seq", flat=True)
            .first()
        )
        kept.append(Rewind(seq, first or seq))
    return kept
