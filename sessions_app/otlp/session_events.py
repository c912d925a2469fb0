"""Events of traced sessions: written as the spans that tell of them arrive, and again where late spans change them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from heapq import merge
from operator import attrgetter

from django.db.models import Sum

from sessions_app.otlp.conversations import Wire
from sessions_app.store import events
from sessions_app.store.database.json_sql import COUNTS_AS_ERROR
from sessions_app.store.events import EventRecord
from sessions_app.store.index import index_entries
from sessions_app.store.models import AgentSession, Event, EventJudgement
from sessions_app.store.sessions import writes

MAX_REWRITTEN = 2_000
"""Most events that are written again because spans arrived late; a span can change the first event of a session."""


def write_events(
    session: AgentSession, invocation_id: str, wires: Sequence[Wire], *, is_new: bool = False
) -> bool:
    """Let the events of an invocation of a traced session be those given. Return whether something changed.

    New events are appended. If a stored one differs, or is later than a new one, because spans arrived late, it and
    those after it are written again, unless those are more than `MAX_REWRITTEN`. In the caller's transaction.

    Args:
        session: as it is stored.
        invocation_id: of the events.
        wires: the events, oldest first.
        is_new: no event of the invocation is stored.
    """
    records = [events.build_record(wire) for wire in wires]
    of_invocation = Event.objects.filter(session=session, invocation_id=invocation_id).order_by("seq")
    stored = [] if is_new else list(of_invocation.values_list("seq", "event_id", "data"))
    same = _count_same(stored, records)
    if same == len(stored) == len(records):
        return False
    changed_seqs = [seq for seq, _, _ in stored[same : same + 1]]
    changed_seqs += _find_first_later(session, invocation_id, records[same:])
    new = records[same:]
    if changed_seqs:
        if session.last_seq - min(changed_seqs) >= MAX_REWRITTEN:
            new = records[len(stored) :]
        else:
            kept = sum(seq < min(changed_seqs) for seq, _, _ in stored[:same])
            others = _cut_events(session, min(changed_seqs), invocation_id)
            new = list(merge(records[kept:], others, key=attrgetter("timestamp")))
    for record in new:
        writes.append_event(session.key, record)
    return True


def _find_first_later(session: AgentSession, invocation_id: str, new: Sequence[EventRecord]) -> list[int]:
    """Return the seq of the first event of another invocation that is later than the first new event, in a list."""
    if not new or session.updated_at <= new[0].timestamp:
        return []
    later = Event.objects.filter(
        session=session, seq__gt=session.last_seq - MAX_REWRITTEN, timestamp__gt=new[0].timestamp
    ).exclude(invocation_id=invocation_id)
    return list(later.order_by("seq").values_list("seq", flat=True)[:1])


def _count_same(stored: Sequence[tuple[int, str, str]], records: Sequence[EventRecord]) -> int:
    """Return how many of the first stored events are those of the records."""
    pairs = zip(stored, records, strict=False)
    return next(
        (
            index
            for index, ((_, event_id, data), record) in enumerate(pairs)
            if (event_id, data) != (record.event_id, record.data)
        ),
        min(len(stored), len(records)),
    )


def _cut_events(session: AgentSession, first: int, invocation_id: str) -> list[EventRecord]:
    """Delete the events of a session from seq `first` on. Return the records of those of other invocations."""
    rows = Event.objects.filter(session=session, seq__gte=first)
    others = list(rows.exclude(invocation_id=invocation_id).order_by("seq").values_list("data", flat=True))
    index_entries.reset_session(session.pk)
    EventJudgement.objects.filter(session=session, seq__gte=first).delete()
    rows.delete()
    remaining = Event.objects.filter(session=session)
    AgentSession.objects.filter(pk=session.pk).update(
        last_seq=first - 1,
        error_count=remaining.filter(COUNTS_AS_ERROR).count(),
        total_tokens=remaining.aggregate(sum=Sum("total_tokens"))["sum"] or 0,
        **({"first_text": "", "last_text": ""} if first == 1 else {}),
    )
    return [events.build_record(json.loads(data)) for data in others]
