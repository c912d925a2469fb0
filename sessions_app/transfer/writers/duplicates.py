"""Events that are here already, to compare those of a source with."""

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
    """A stored event of the same id."""

    seq: int
    body: str

    def says(self, record: EventRecord) -> bool:
        """Tell whether it is the same event. Details may have been read otherwise by an older DevUI."""
        body = record.private or record.data
        if self.body == body:
            return True
        here, there = json.loads(self.body), json.loads(body)
        return all(here.get(name) == there.get(name) for name in _CORE)


class Duplicates:
    """The events of a batch's sessions that have the batch's ids, here and earlier in the batch itself."""

    def __init__(self, keys: Mapping[int, SessionKey], event_ids: Iterable[str]) -> None:
        """Look for events with these ids in these sessions (pk to key)."""
        self._asked = {event_id for event_id in event_ids if is_storable(event_id)}
        rows = Event.objects.filter(session_id__in=keys, event_id__in=self._asked)
        columns = ("session_id", "event_id", "seq", "data", "private")
        self._found = {
            (keys[pk], event_id): Duplicate(seq, private or data)
            for pk, event_id, seq, data, private in rows.values_list(*columns)
        }

    def find(self, seat: SessionPlan, event_id: str) -> Duplicate | None:
        """Return the session's event of this id."""
        if event_id not in self._asked and seat.pk:
            row = Event.objects.filter(session_id=seat.pk, event_id=event_id).first()
            if row:
                return Duplicate(row.seq, row.private or row.data)
        return self._found.get((seat.key, event_id))

    def add(self, seat: SessionPlan, record: EventRecord) -> None:
        """Remember an event that is about to be stored."""
        self._found[seat.key, record.event_id] = Duplicate(seat.came, record.private or record.data)
