"""Actions of an event: every field of `EventActions`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sessions_app.presentation.json_pointer import join_pointer
from sessions_app.timeline.content_parts import Part, parse_parts
from sessions_app.timeline.items import SIGNAL_ICONS, SIGNALS

EMPTY: tuple[Any, ...] = (None, {}, [])

SHOWN_SEPARATELY = frozenset({"stateDelta", "artifactDelta"})
"""Fields that are shown elsewhere."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action of an event.

    Attributes:
        name: the field of `EventActions`.
        icon: name of the icon.
        description: its label, with a value that fits on the line.
        value: value to show as JSON; None if the description is complete.
        pointer: JSON pointer to `value` in the event.
        is_known: whether the field is one of ADK's `EventActions`.
    """

    name: str
    icon: str
    description: str
    value: Any = None
    pointer: str = ""
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class Compaction:
    """The summary that replaces the events of a time span for the model. Times in epoch seconds."""

    start: float | None
    end: float | None
    parts: list[Part]


def describe_actions(actions: Mapping[str, Any]) -> list[Action]:
    """Return the actions of an event, without empty fields."""
    excluded = {*SHOWN_SEPARATELY, "compaction"} if parse_compaction(actions) else SHOWN_SEPARATELY
    return [
        _describe_action(name, value)
        for name, value in actions.items()
        if name not in excluded and value not in EMPTY
    ]


def parse_compaction(actions: Mapping[str, Any]) -> Compaction | None:
    """Return the compaction in an event's actions; None if there is none."""
    compaction = actions.get("compaction")
    if not isinstance(compaction, dict):
        return None
    content = compaction.get("compactedContent")
    parts = parse_parts(content, "/actions/compaction/compactedContent")
    return Compaction(
        _time_or_none(compaction.get("startTimestamp")), _time_or_none(compaction.get("endTimestamp")), parts
    )


def rewound_invocation(actions: Mapping[str, Any]) -> str:
    """Return the invocation before which the event rewinds the session; empty if it is no rewind."""
    target = actions.get("rewindBeforeInvocationId")
    return target if isinstance(target, str) else ""


def _describe_action(name: str, value: Any) -> Action:
    label, icon = SIGNALS.get(name, name), SIGNAL_ICONS.get(name, "control")
    is_known = name in SIGNALS
    if isinstance(value, dict | list):
        return Action(name, icon, label, value, join_pointer("actions", name), is_known)
    if value is not True:
        label = f"{label}: {'no' if value is False else value}"
    return Action(name, icon, label, is_known=is_known)


def _time_or_none(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
