"""Find the events that no longer count: rewound, or replaced by a compaction's summary in model requests.

Events are never deleted. The rules are ADK's: `google/adk/events/_rewind_events.py` for rewinds, and the time range of
`EventCompaction` for compactions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.db.models import QuerySet

from sessions_app.store.database.json_sql import IS_REWIND_OR_COMPACTION
from sessions_app.store.events import as_seconds
from sessions_app.store.models import AgentSession, Event


@dataclass(frozen=True, slots=True)
class Rewind:
    """A rewind event at `seq`, which removed the events from `first` on."""

    seq: int
    first: int


@dataclass(frozen=True, slots=True)
class CompactedSpan:
    """A time span whose events the compaction event at `seq` replaces by a summary in model requests."""

    seq: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class SupersededRanges:
    """The rewinds and compactions that affect a window of events."""

    rewinds: list[Rewind]
    compactions: list[CompactedSpan]

    def rewound_by(self, event: Event) -> int:
        """Return the seq of the rewind that removed an event; 0 if none did."""
        return next((mark.seq for mark in self.rewinds if mark.first <= event.seq <= mark.seq), 0)

    def taken_back_by(self, seq: int) -> tuple[int, int] | None:
        """Return the first and last seq that the rewind at `seq` removed; None if it removed none."""
        mark = next((mark for mark in self.rewinds if mark.seq == seq and mark.first < seq), None)
        return (mark.first, seq - 1) if mark else None

    def compacted_by(self, event: Event) -> int:
        """Return the seq of the newest compaction that covers an event; 0 if none does."""
        return max(self._covering_seqs(event), default=0)

    def supersedes(self, event: Event) -> bool:
        """Tell whether a rewind removed an event or a compaction covers it."""
        return bool(self.rewound_by(event) or self.compacted_by(event))

    def first_compacted_by(self, event: Event) -> int:
        """Return the seq of the first compaction that covers an event; 0 if none does."""
        return min(self._covering_seqs(event), default=0)

    def _covering_seqs(self, event: Event) -> Iterator[int]:
        return (
            mark.seq
            for mark in self.compactions
            if event.seq < mark.seq and mark.start <= event.timestamp <= mark.end
        )


def find_superseded_ranges(session: AgentSession | int, first_seq: int) -> SupersededRanges:
    """Return the rewinds and compactions that may affect events from `first_seq` on.

    Takes one query, and one index seek per rewind.
    """
    return superseded_ranges(session, superseding_rows(session, first_seq))


def superseding_rows(session: AgentSession | int, first_seq: int) -> QuerySet[Event, tuple[int, str]]:
    """Return the read of the rewinds and compactions from `first_seq` on: seq and body of their events."""
    carriers = Event.objects.filter(IS_REWIND_OR_COMPACTION, session=session, seq__gte=first_seq)
    return carriers.values_list("seq", "data")


def superseded_ranges(session: AgentSession | int, rows: Iterable[tuple[int, str]]) -> SupersededRanges:
    """Return the ranges of the rows of `superseding_rows`. One index seek per rewind."""
    rewinds: list[tuple[int, str]] = []
    compactions = []
    for seq, data in sorted(rows, reverse=True):
        actions = json.loads(data).get("actions") or {}
        if target := actions.get("rewindBeforeInvocationId"):
            rewinds.append((seq, target))
        if (span := actions.get("compaction")) and isinstance(span, dict):
            start, end = as_seconds(span.get("startTimestamp")), as_seconds(span.get("endTimestamp"))
            compactions.append(CompactedSpan(seq, start, end))
    return SupersededRanges(_effective_rewinds(session, rewinds), compactions)


def find_compacted_range(session: AgentSession, mark: CompactedSpan) -> tuple[int, int] | None:
    """Return the first and last seq that a compaction covers; None if there are none.

    Takes two queries that scan backwards from the compaction.
    """
    seqs = (
        Event.objects.filter(session=session, seq__lt=mark.seq).order_by("-seq").values_list("seq", flat=True)
    )
    last = seqs.filter(timestamp__lte=mark.end).first()
    first = (seqs.filter(timestamp__lt=mark.start).first() or 0) + 1
    return (first, last) if last and first <= last else None


def _effective_rewinds(session: AgentSession | int, newest_first: Iterable[tuple[int, str]]) -> list[Rewind]:
    """Leave out rewinds that were themselves rewound, and those whose target invocation is not before them."""
    rewinds: list[Rewind] = []
    for seq, target in newest_first:
        if rewinds and seq >= rewinds[-1].first:
            continue
        first = (
            Event.objects.filter(session=session, invocation_id=target, seq__lt=seq)
            .order_by("seq")
            .values_list("seq", flat=True)
            .first()
        )
        rewinds.append(Rewind(seq, first or seq))
    return rewinds
