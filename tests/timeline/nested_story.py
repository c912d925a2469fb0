"""Nested runs inside the calls of a told session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sessions_app.store import events as event_records
from sessions_app.store.models import Event, NestedRun
from sessions_app.store.sessions import writes
from sessions_app.store.sessions.nested_runs import NestedRunOrigin, save_nested
from tests.timeline.story import Story


def nest(
    story: Story,
    ref: str,
    call_id: str = "c1",
    parent: str = "",
    state: Mapping[str, Any] | None = None,
    **columns: Any,
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
    call = NestedRunOrigin(ref, call_id, caller_ref=parent)
    save_nested(story.key, call, NestedRun(call_id=call_id, **values), state or {})
    return NestedRun.objects.select_related("child").get(outer=story.pk, child__session_id=ref)


def add(run: NestedRun, *parts: dict[str, Any], author: str = "helper", **fields: Any) -> Event:
    """Append an event to a nested run."""
    number = Event.objects.filter(session=run.child_id).count() + 1
    wire = {
        "id": f"{run.child.session_id}-{number}",
        "author": author,
        "timestamp": 10.0 + number,
        "content": {"parts": list(parts)},
        **fields,
    }
    writes.append_event(run.child.key, event_records.build_record(wire))
    NestedRun.objects.filter(pk=run.pk).update(event_count=number, stored_count=number)
    return Event.objects.get(session=run.child_id, seq=number)


def text(words: str) -> dict[str, Any]:
    return {"text": words}


def nested_call(name: str, call_id: str) -> dict[str, Any]:
    return {"functionCall": {"id": call_id, "name": name, "args": {}}}
