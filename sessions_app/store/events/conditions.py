"""Named conditions on events. Only these and the two of `store.database.json_sql` select events by kind."""

from __future__ import annotations

from django.db.models import Q

from sessions_app.store.events.kinds import EventKind, kind_properties
from sessions_app.store.models import Event

_KINDS_WITH_CALLS = [kind.value for kind in EventKind if kind.properties.has_calls]
_KINDS_WITH_RESULTS = [kind.value for kind in EventKind if kind.properties.has_results]

HAS_CALLS = Q(kind__in=_KINDS_WITH_CALLS)
HAS_RESULTS = Q(kind__in=_KINDS_WITH_RESULTS)
IS_ERROR = Q(kind=EventKind.ERROR.value)
IS_USER_MESSAGE = Q(kind=EventKind.USER.value)
MAY_NAME_TOOLS = Q(kind__in=[*_KINDS_WITH_CALLS, *_KINDS_WITH_RESULTS, EventKind.ERROR.value])
"""An event with calls or results that is also an error counts as an error."""


def is_error(event: Event) -> bool:
    """Tell whether an event is an error."""
    return event.kind == EventKind.ERROR


def is_user_message(event: Event) -> bool:
    """Tell whether an event is a message of the user."""
    return event.kind == EventKind.USER and event.author == "user"


def is_model_output(event: Event) -> bool:
    """Tell whether an event contains text or calls of a model."""
    return kind_properties(event.kind).is_model_output


def comes_from_model(event: Event) -> bool:
    """Tell whether an event came out of a model call: its output, or an error."""
    return event.author != "user" and (is_model_output(event) or is_error(event))


def can_end_turn(event: Event) -> bool:
    """Tell whether an event can be an agent's final response: it has content. An error never is."""
    return kind_properties(event.kind).can_end_turn
