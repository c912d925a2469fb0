"""Named conditions on events: each kind of event and the conditions that it meets."""

from __future__ import annotations

from typing import Any

import pytest

from sessions_app.events import conditions
from sessions_app.models import Event, EventKind

PREDICATES = {
    EventKind.USER: {"is_user_message"},
    EventKind.AGENT: {"is_model_output", "can_end_turn"},
    EventKind.TOOL_CALL: {"is_model_output"},
    EventKind.TOOL_RESULT: set(),
    EventKind.STATE: set(),
    EventKind.CONTROL: set(),
    EventKind.ERROR: {"is_error", "can_end_turn"},
}


def test_every_event_kind_has_its_conditions_stated():
    assert PREDICATES.keys() == set(EventKind), "add the new kind to conditions.py and here"


@pytest.mark.parametrize("kind", EventKind)
def test_event_meets_the_conditions_of_its_kind(kind):
    event = Event(kind=kind, author="user")
    names = {"is_error", "is_user_message", "is_model_output", "can_end_turn"}
    assert {name for name in names if _predicate(name)(event)} == PREDICATES[kind]


def _predicate(name: str) -> Any:
    return getattr(conditions, name)
