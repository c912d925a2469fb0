"""Text of nested runs, which is indexed at the event with their call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from sessions_app.events import event_text
from sessions_app.models import Event, NestedEvent, NestedRun

MAX_TEXT = 200_000
"""Characters of nested text that are indexed at an event: an entry of PostgreSQL holds at most 1 MB."""


def texts_of(session_pk: int, events: Iterable[Event]) -> Mapping[int, Sequence[str]]:
    """Return the texts of the nested runs inside events, by seq. At most two queries."""
    seqs = [event.seq for event in events if '"calls":[' in event.summary]
    if not seqs:
        return {}
    runs = NestedRun.objects.filter(session=session_pk, seq__in=seqs)
    seq_by_ref = dict(runs.values_list("ref", "seq"))
    if not seq_by_ref:
        return {}
    rows = NestedEvent.objects.filter(session=session_pk, ref__in=runs.values("ref")).order_by("pk")
    texts: dict[int, list[str]] = defaultdict(list)
    remaining = dict.fromkeys(seqs, MAX_TEXT)
    for ref, data in rows.values_list("ref", "data").iterator():
        seq = seq_by_ref.get(ref) or 0
        if remaining.get(seq) and (text := event_text.text_of_data(data)[: remaining[seq]]):
            remaining[seq] -= len(text)
            texts[seq].append(text)
    return texts
