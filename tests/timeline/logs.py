"""Log records of stories."""

from __future__ import annotations

from typing import Any

from sessions_app.store.models import Event, LogRecord
from sessions_app.store.traces import log_records
from tests.timeline.story import Story


def log(story: Story, seq: int, *messages: str, level: int = 20, **columns: Any) -> list[LogRecord]:
    """Store records after an event."""
    row = Event.objects.get(session=story.pk, seq=seq)
    first = LogRecord.objects.count() + 1
    records = [
        log_records.NewLogRecord(
            **{
                "invocation_id": row.invocation_id,
                "ref": "r",
                "number": number,
                "at": 10.0,
                "level": level,
                "source": "log",
                "logger": "shop",
                "after_event_id": row.event_id,
                "message": message,
                **columns,
            }
        )
        for number, message in enumerate(messages, first)
    ]
    while not log_records.save_log_records(story.key, records):
        pass
    return list(LogRecord.objects.filter(session=story.pk, ref="r", number__gte=first).order_by("pk"))
