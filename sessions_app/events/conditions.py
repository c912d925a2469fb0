"""Named conditions on events. Events are selected by kind only here.

A new `EventKind` has to be added to each condition that its events meet.
"""

from __future__ import annotations

from django.db.models import Q

from sessions_app.models import Event, EventKind

HAS_CALLS = Q(kind=EventKind.TOOL_CALL)
HAS_RESULTS = Q(kind=EventKind.TOOL_RESULT)
IS_ERROR = Q(kind=EventKind.ERROR)
IS_USER_MESSAGE = Q(kind=EventKind.USER)

_MODEL_OUTPUT = frozenset({EventKind.AGENT, EventKind.TOOL_CALL})
_RESPONSE = frozenset({EventKind.AGENT, EventKind.ERROR})


def is_error(event: Event) -> bool:
    """Tell whether an event is an error."""
    return event.kind == EventKind.ERROR


def is_user_message(event: Event) -> bool:
    """Tell whether an event is a message of the user."""
    return event.kind == EventKind.USER and event.author == "user"


def is_model_output(event: Event) -> bool:
    """Tell whether an event contains text or calls of a model."""
    return event.kind in _MODEL_OUTPUT


def can_end_turn(event: Event) -> bool:
    """Tell whether an event can be an agent's final response: text or an error."""
    return event.kind in _RESPONSE
