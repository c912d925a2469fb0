"""Text and traits of nested runs, which are indexed at the event with their call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from django.db.models import Exists, OuterRef, Q

from sessions_app.store.events import event_text
from sessions_app.store.events.summary import CALLS_IN_SUMMARY
from sessions_app.store.models import AgentSession, Event, NestedRun
from sessions_app.store.realms import NESTED

MAX_TEXT = 2_000_000
"""Characters of nested text that are indexed at an event."""

MAX_TRAITS = 1_000
"""Distinct traits of nested events that are indexed at an event."""


@dataclass(slots=True)
class NestedContent:
    """Text and traits of the nested runs inside an event."""

    texts: list[str] = field(default_factory=list)
    traits: set[event_text.Trait] = field(default_factory=set)


def read_nested_contents(session_pk: int, events: Iterable[Event]) -> Mapping[int, NestedContent]:
    """Return the content of the nested runs inside events, by seq. At most one query."""
    seqs = [event.seq for event in events if CALLS_IN_SUMMARY in event.summary]
    if not seqs:
        return {}
    is_inside = Q(session__nested_run__outer=session_pk, session__nested_run__outer_seq__in=seqs)
    rows = Event.objects.filter(is_inside).order_by("pk")
    contents: dict[int, NestedContent] = defaultdict(NestedContent)
    remaining = dict.fromkeys(seqs, MAX_TEXT)
    columns = ("session__nested_run__outer_seq", "kind", "author", "summary", "data")
    for outer_seq, kind, author, summary, data in rows.values_list(*columns).iterator():
        seq = outer_seq or 0
        content = contents[seq]
        if len(content.traits) < MAX_TRAITS:
            content.traits.update(event_text.event_traits(kind, author, "", summary))
        if remaining.get(seq) and (text := event_text.data_text(data)[: remaining[seq]]):
            remaining[seq] -= len(text)
            content.texts.append(text)
    return contents


def has_nested(session: AgentSession, condition: Q, first: int, last: int) -> Q:
    """Return the condition for events from seq `first` to `last` with a nested event that meets a condition.

    In a nested session, only runs that it called itself are searched, not those inside them.
    """
    role, seq = ("caller", "caller_seq") if session.realm.startswith(NESTED) else ("outer", "outer_seq")
    matching = Event.objects.filter(condition, session=OuterRef("child"))
    runs = NestedRun.objects.filter(Exists(matching), **{role: session, f"{seq}__range": (first, last)})
    return Q(seq__in=runs.values(seq))
