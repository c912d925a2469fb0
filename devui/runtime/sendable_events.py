"""What ADK's server sends of an event: what is stored, when ADK itself could not write it as JSON.

ADK writes an answer when the run is over: half a character, NaN or an object in one event made the whole answer a
500, or broke the stream, though the run was done and its events stored.
"""

from __future__ import annotations

from google.adk.events.event import Event
from pydantic import ValidationError

from sessions_app import scopes
from sessions_app.adk import event_mapping
from sessions_app.events import is_failed_result


def to_sendable(event: Event) -> Event:
    """Return the event, or a copy in the form the store keeps when it has no other JSON form, or quotes a credential.

    The form is that of `mapping.to_record`: half characters are replaced, what is no JSON is text, and the texts of
    errors are without credentials.
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
        return event  # no event of ADK's: its own server says what it makes of it


def _has_error_text(event: Event) -> bool:
    """Tell whether an event holds the text of an error. One whose content is none holds nothing that is read."""
    parts = getattr(event.content, "parts", None) or []
    responses = [part.function_response for part in parts if getattr(part, "function_response", None)]
    return bool(event.error_message) or any(is_failed_result(response.response) for response in responses)


def _is_json(event: Event) -> bool:
    """Tell whether ADK's dump of an event is JSON. ADK's own way out for a delta, `str`, is not the store's."""
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
