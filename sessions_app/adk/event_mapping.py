"""Conversion between ADK events and rows."""

from __future__ import annotations

import json
import math
import time
from typing import Any

from google.adk.events.event import Event
from pydantic import BaseModel, ValidationError

from sessions_app.adk.event_reader import read_event
from sessions_app.store import events, scopes
from sessions_app.store.events import EventRecord
from sessions_app.store.events.attribution import Writer
from sessions_app.store.events.records import UNKNOWN_FIELDS

MAX_MISFITS = 100
"""Maximum number of invalid values of an event that are set aside."""


def to_record(
    event: Event,
    *,
    delta: dict[str, Any] | None = None,
    writers: dict[str, Writer] | None = None,
    keep_temp: bool = False,
    model: str = "",
) -> EventRecord:
    """Return the row of an ADK event without changing the event.

    `delta` is the delta before ADK trimmed it; `model` is the model that was asked for the event.
    """
    body = to_wire(event)
    if delta is None:
        delta = event.actions.state_delta if event.actions else {}
    return events.build_record(body, delta=delta, writers=writers, keep_temp=keep_temp, model=model)


def to_wire(event: Event) -> dict[str, Any]:
    """Return an event as ADK's REST spells it (camelCase, None fields left out), internal metadata included.

    The state delta is left out: it is made canonical once, by `events.build_record`. What pydantic cannot serialise
    is kept as text rather than losing the event, and a time that is none becomes the present.
    """
    try:
        body = event.model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude={"actions": {"state_delta"}}
        )
    except (ValueError, TypeError, RecursionError):
        body = _field_by_field(event)
    if not math.isfinite(event.timestamp):
        body["timestamp"] = time.time()
    return body


def from_row(data: str, private: str | None, event_id: str, invocation_id: str) -> Event:
    """Return the ADK event of a row. The columns take precedence over the payload."""
    event = _parse_event(private or data)
    if event.id != event_id:
        event.id = event_id
    if event.invocation_id != invocation_id:
        event.invocation_id = invocation_id
    return event


def state_value(value: str, private: str | None) -> Any:
    """Return the Python value of a state row."""
    return json.loads(private or value)


def _parse_event(text: str) -> Event:
    try:
        return read_event(text)
    except ValidationError:  # also where only pydantic's parser of JSON refuses: it stops at 200 levels
        return _set_misfits_aside(json.loads(text))


def _set_misfits_aside(body: dict[str, Any]) -> Event:
    """Return the event of a body, with values that ADK's classes refuse moved to its metadata.

    Imported events may hold such values; without this their session could not be loaded.

    Raises:
        ValidationError: the event has more invalid values than are set aside.
    """
    aside: dict[str, Any] = {}
    for _ in range(MAX_MISFITS):
        try:
            event = Event.model_validate(body)
        except ValidationError as error:
            if not _take_out(body, error.errors()[0]["loc"], aside):
                raise
        else:
            if aside:
                event.custom_metadata = {**(event.custom_metadata or {}), UNKNOWN_FIELDS: aside}
            return event
    return Event.model_validate(body)


def _take_out(body: dict[str, Any], json_path: tuple[int | str, ...], aside: dict[str, Any]) -> bool:
    """Move the deepest value on an error's location from a body to `aside`; return False if there is none."""
    holder: Any = None
    last: int | str = ""
    value: Any = body
    path: list[str] = []
    for step in json_path:
        if not _has_step(value, step):
            break
        holder, last, value = value, step, value[step]
        path.append(str(step))
    if holder is None:
        return False
    aside[".".join(path)] = value
    del holder[last]
    return True


def _has_step(value: Any, step: int | str) -> bool:
    if isinstance(value, list):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, dict) and step in value


def _field_by_field(value: Any) -> Any:
    """Return the JSON form of a model whose dump fails; only values that cannot be dumped become text."""
    if isinstance(value, BaseModel):
        fields = {
            field.serialization_alias or name: getattr(value, name)
            for name, field in type(value).model_fields.items()
            if name != "state_delta"
        }
        values = {**fields, **(value.model_extra or {})}
        return {name: _field_by_field(item) for name, item in values.items() if item is not None}
    if isinstance(value, list) and all(isinstance(item, BaseModel) for item in value):
        return [_field_by_field(item) for item in value]
    if isinstance(value, set):
        return sorted(value)
    return scopes.to_jsonable(value)
