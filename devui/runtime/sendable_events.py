"""Events in a form that ADK's server can send as JSON.

ADK serializes the events of a run at its end. A lone surrogate, NaN or an object in one event would turn the whole
response into a 500, or break the stream, although the run has ended and its events are stored.
"""

from __future__ import annotations

from google.adk.events.event import Event
from pydantic import ValidationError

from sessions_app.adk import event_mapping
from sessions_app.store import scopes
from sessions_app.store.events import is_failed_result


def to_sendable(event: Event) -> Event:
    """Return the event, or a copy in its stored form if it is not valid JSON or quotes a credential.

    The stored form is that of `mapping.to_record`: lone surrogates are replaced, values without a JSON form become
    text, and error texts contain no credentials.
    """
    is_json = _is_json(event)
    if is_json and not _has_error_text(event):
        return event
    record = event_mapping.to_record(event)
    if is_json and record.private is None:
        return event
    private = None if _has_error_text(event) else record.private
    try:
        return event_mapping.from_row(record.data, private, event.id, event.invocation_id)
    except ValidationError:
        return event  # not an event of ADK: its own server reports the problem


def _has_error_text(event: Event) -> bool:
    """Tell whether an event contains the text of an error. An event with invalid content counts as one without."""
    parts = getattr(event.content, "parts", None) or []
    responses = [part.function_response for part in parts if getattr(part, "function_response", None)]
    return bool(event.error_message) or any(is_failed_result(response.response) for response in responses)


def _is_json(event: Event) -> bool:
    """Tell whether ADK's dump of an event is JSON. The state delta is checked by the rules of the store."""
    try:
        scopes.dump_storable(
            event.model_dump(
                mode="json",
                by_alias=True,
                exclude_none=True,
                exclude={"actions": {"state_delta"}},
                warnings=False,
            )
        )
    except (ValueError, TypeError, RecursionError):
        return False
    return not any(scopes.canonicalize(value, key).note for key, value in event.actions.state_delta.items())
