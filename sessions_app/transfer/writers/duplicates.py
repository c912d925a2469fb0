"""Lookup of stored events with the ids of events in a source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sessions_app.events import EventRecord
from sessions_app.ids import SessionKey, is_storable
from sessions_app.models import Event
from sessions_app.transfer.writers.session_plan import SessionPlan

_CORE = ("invocationId", "author", "timestamp", "content")


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Stored event with the same id."""

    seq: int
    body: str

    def is_same_event(self, record: EventRecord) -> bool:
        """Tell whether it is the same event. Details may differ when an older DevUI imported it."""
        body = record.private or record.data
        if self.body == body:
            return True
        here, there = json.loads(self.body), json.loads(body)
        return all(here.get(name) == there.get(name) for name in _CORE)


class Duplicates:
    """Events with the ids of a batch, in the store and earlier in the batch."""

    def __init__(self, keys: Mapping[int, SessionKey], event_ids: Iterable[str]) -> None:
        """Load the events with these ids from these sessions (pk to key)."""
        self._asked = {event_id for event_id in event_ids if is_storable(event_id)}
        rows = Event.objects.filter(session_id__in=keys, event_id__in=self._asked)
        columns = ("session_id", "event_id", "seq", "data", "private")
        self._found = {
            (keys[pk], event_id): Duplicate(seq, private or data)
            for pk, event_id, seq, data, private in rows.values_list(*columns)
        }

    def find(self, plan: SessionPlan, event_id: str) -> Duplicate | None:
        """Return the session's event with this id."""
        if event_id not in self._asked and plan.pk:
            row = Event.objects.filter(session_id=plan.pk, event_id=event_id).first()
            if row:
                return Duplicate(row.seq, row.private or row.data)
        return self._found.get((plan.key, event_id))

    def add(self, plan: SessionPlan, record: EventRecord) -> None:
        """Add an event that is about to be stored."""
        self._found[plan.key, record.event_id] = Duplicate(plan.events_read, record.private or record.data)
