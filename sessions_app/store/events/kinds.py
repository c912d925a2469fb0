"""The kinds of events: label, icon, rule and properties of each, in one registry.

Pages, search, API and indexes loop over `EventKind`. To add a kind, add a member with its properties, its place in
`RECOGNITION_ORDER`, and its color (see docs/contributing.md). `tests/timeline/test_event_kinds.py` names what is
missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self

from sessions_app.store.events.content import (
    TRANSCRIPTIONS,
    content_parts,
    control_signals,
    failed_results,
    function_calls,
    function_responses,
    is_aborted,
    partial_parts,
)

Wire = Mapping[str, Any]
"""An event in wire form."""


def _is_own_error(wire: Wire) -> bool:
    return bool(wire.get("errorCode") or wire.get("errorMessage")) and not is_aborted(wire)


def _has_content(wire: Wire) -> bool:
    transcribed = any(isinstance(wire.get(name), dict) for name in TRANSCRIPTIONS)
    return bool(content_parts(wire) or partial_parts(wire) or transcribed)


def _is_user_input(wire: Wire) -> bool:
    return wire.get("author") == "user" and _has_content(wire)


def _is_agent_response(wire: Wire) -> bool:
    """Tell whether an event has content, or the output of a node and no action."""
    has_action = _is_state_update(wire) or _has_signals(wire)
    return _has_content(wire) or (wire.get("output") is not None and not has_action)


def _is_state_update(wire: Wire) -> bool:
    return bool((wire.get("actions") or {}).get("stateDelta")) and not _has_signals(wire)


def _has_signals(wire: Wire) -> bool:
    return any(True for _ in control_signals(wire.get("actions") or {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class KindProperties:
    """Properties of a kind of events.

    Attributes:
        label: its name on pages.
        matches: whether an event is of this kind, unless a kind before it in `RECOGNITION_ORDER` matches.
        icon: its symbol in static/devui/icons.svg.
        has_calls: its events have tool calls.
        has_results: its events have tool results.
        is_model_output: its events contain text or calls of a model.
        can_end_turn: its events can be an agent's final response.
    """

    label: str
    matches: Callable[[Wire], bool]
    icon: str
    has_calls: bool = False
    has_results: bool = False
    is_model_output: bool = False
    can_end_turn: bool = False


class EventKind(StrEnum):
    """The main category of an event. Pages show the kinds in this order."""

    properties: KindProperties

    def __new__(cls, value: str, properties: KindProperties) -> Self:
        """Create a member from its value in the store and the API, and its properties."""
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.properties = properties
        return kind

    USER = "user", KindProperties(label="user input", matches=_is_user_input, icon="user")
    AGENT = (
        "agent",
        KindProperties(
            label="agent response",
            matches=_is_agent_response,
            icon="agent",
            is_model_output=True,
            can_end_turn=True,
        ),
    )
    TOOL_CALL = (
        "tool_call",
        KindProperties(
            label="tool call",
            matches=lambda wire: bool(function_calls(wire)),
            icon="tool_call",
            has_calls=True,
            is_model_output=True,
        ),
    )
    TOOL_RESULT = (
        "tool_result",
        KindProperties(
            label="tool result",
            matches=lambda wire: bool(function_responses(wire)),
            icon="tool_result",
            has_results=True,
        ),
    )
    STATE = "state", KindProperties(label="state update", matches=_is_state_update, icon="state")
    CONTROL = "control", KindProperties(label="control signal", matches=lambda wire: True, icon="control")
    ERROR = "error", KindProperties(label="error", matches=_is_own_error, icon="error")

    @property
    def label(self) -> str:
        """Name of the kind on pages."""
        return self.properties.label


RECOGNITION_ORDER = (
    EventKind.ERROR,
    EventKind.TOOL_CALL,
    EventKind.TOOL_RESULT,
    EventKind.USER,
    EventKind.AGENT,
    EventKind.STATE,
    EventKind.CONTROL,
)
"""An event is of the first kind that matches. The last one matches all events."""


def recognize_kind(wire: Wire) -> EventKind:
    """Return the kind of an event in wire form."""
    return next(kind for kind in RECOGNITION_ORDER if kind.properties.matches(wire))


def is_error(wire: Wire) -> bool:
    """Tell whether the event counts as an error: it is one itself, or contains the result of a failed tool."""
    return _is_own_error(wire) or bool(failed_results(wire))


_PROPERTIES = {kind.value: kind.properties for kind in EventKind}


def kind_properties(value: str) -> KindProperties:
    """Return the properties of a stored kind; if a newer version of DevUI stored it, with its value as label."""
    return _PROPERTIES.get(value) or replace(EventKind.CONTROL.properties, label=value)
