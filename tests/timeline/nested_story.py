"""Nested runs inside the calls of a told session."""

from __future__ import annotations

from typing import Any

from sessions_app.store import events as event_records
from sessions_app.store.models import NestedEvent, NestedRun
from sessions_app.store.traces.nested_records import TopCall, save_nested
from tests.timeline.story import Story


def nest(
    story: Story, ref: str, call_id: str = "c1", parent: str = "", top: str = "c1", **columns: Any
) -> NestedRun:
    """Store a nested run with its request."""
    values = {
        "agent": "helper",
        "invocation_id": "i1",
        "started_at": 10.0,
        "changed_at": 10.0,
        "finished_at": 12.5,
        "event_count": 0,
        "stored_count": 0,
        **columns,
    }
    save_nested(story.key, NestedRun(ref=ref, call_id=call_id, parent_ref=parent, **values), TopCall(top))
    return NestedRun.objects.get(session=story.pk, ref=ref)


def add(run: NestedRun, *parts: dict[str, Any], author: str = "helper", **fields: Any) -> NestedEvent:
    """Append an event to a nested run."""
    number = NestedEvent.objects.filter(session=run.session_id, ref=run.ref).count() + 1
    wire = {
        "id": f"{run.ref}-{number}",
        "author": author,
        "timestamp": 10.0 + number,
        "content": {"parts": list(parts)},
        **fields,
    }
    record = event_records.build_record(wire)
    NestedRun.objects.filter(pk=run.pk).update(event_count=number, stored_count=number)
    return NestedEvent.objects.create(
        session_id=run.session_id,
        ref=run.ref,
        number=number,
        event_id=record.event_id,
        author=record.author,
        kind=str(record.kind),
        timestamp=record.timestamp,
        is_final=record.is_final,
        total_tokens=record.total_tokens,
        summary=record.summary,
        data=record.data,
    )


def text(words: str) -> dict[str, Any]:
    return {"text": words}


def nested_call(name: str, call_id: str) -> dict[str, Any]:
    return {"functionCall": {"id": call_id, "name": name, "args": {}}}
