"""Actions of an event: every field of `EventActions`, described in words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sessions_app.presentation.json_pointer import pointer_of
from sessions_app.timeline.content_parts import Part, parts_of
from sessions_app.timeline.items import SIGNAL_ICONS

EMPTY: tuple[Any, ...] = (None, {}, [])

SHOWN_SEPARATELY = frozenset({"stateDelta", "artifactDelta"})
"""Fields that are shown elsewhere."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action of an event.

    Attributes:
        name: the field of `EventActions`.
        icon: name of the icon.
        description: description as a sentence.
        value: value to show as JSON; None if the sentence is complete.
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


def actions_of(actions: Mapping[str, Any]) -> list[Action]:
    """Return the actions of an event, without empty fields."""
    excluded = set(SHOWN_SEPARATELY)
    if actions.get("transferToAgent"):
        excluded.add("transferReason")
    if compaction_of(actions):
        excluded.add("compaction")
    return [
        _action(name, value, actions)
        for name, value in actions.items()
        if name not in excluded and value not in EMPTY
    ]


def compaction_of(actions: Mapping[str, Any]) -> Compaction | None:
    """Return the compaction in an event's actions; None if there is none."""
    compaction = actions.get("compaction")
    if not isinstance(compaction, dict):
        return None
    content = compaction.get("compactedContent")
    parts = parts_of(content, "/actions/compaction/compactedContent")
    return Compaction(_time(compaction.get("startTimestamp")), _time(compaction.get("endTimestamp")), parts)


def rewound_invocation(actions: Mapping[str, Any]) -> str:
    """Return the invocation before which the event rewinds the session; empty if it is no rewind."""
    target = actions.get("rewindBeforeInvocationId")
    return target if isinstance(target, str) else ""


def _action(name: str, value: Any, actions: Mapping[str, Any]) -> Action:
    icon = SIGNAL_ICONS.get(name, "control")
    pointer = pointer_of("actions", name)
    words = _DESCRIPTIONS.get(name)
    if words is None:
        return Action(name, icon, name, value, pointer, is_known=False)
    sentence = words(value, actions)
    return Action(name, icon, sentence, None if _needs_no_value(name, value) else value, pointer)


def _needs_no_value(name: str, value: Any) -> bool:
    return name == "route" or (name not in _WITH_VALUE and not isinstance(value, dict | list))


_WITH_VALUE = frozenset({"agentState", "setModelResponse"})

Describe = Callable[[Any, Mapping[str, Any]], str]


def _transfer(value: Any, actions: Mapping[str, Any]) -> str:
    reason = actions.get("transferReason")
    return f"Transfers to {value}" + (f": {reason}" if reason else "")


def _confirmations(value: Any, actions: Mapping[str, Any]) -> str:
    hints = [str(each.get("hint") or "") for each in _values(value) if isinstance(each, dict)]
    question = "; ".join(hint for hint in hints if hint)
    return f"Requests confirmation of {_count_words(value, 'call')}" + (f": {question}" if question else "")


def _route(value: Any, actions: Mapping[str, Any]) -> str:
    routes = value if isinstance(value, list) else [value]
    return "The workflow continues by route " + ", ".join(str(route) for route in routes)


def _describe_flag(text: str, otherwise: str) -> Describe:
    return lambda value, actions: (
        text if value is True else otherwise if value is False else f"{text} ({value})"
    )


_DESCRIPTIONS: dict[str, Describe] = {
    "skipSummarization": _describe_flag(
        "The model does not summarize the result: it is the answer", "The model summarizes the result"
    ),
    "transferToAgent": _transfer,
    "transferReason": lambda value, actions: f"Reason of the transfer: {value}",
    "escalate": _describe_flag(
        "Escalates: returns to the parent agent, and ends a loop", "Does not escalate to the parent agent"
    ),
    "requestedAuthConfigs": lambda value, actions: f"Requests credentials for {_count_words(value, 'call')}",
    "requestedToolConfirmations": _confirmations,
    "compaction": lambda value, actions: "Summarizes earlier events",
    "endOfAgent": _describe_flag("The agent has finished its run", "The agent continues"),
    "agentState": lambda value, actions: "Checkpoint: the agent can resume from here",
    "rewindBeforeInvocationId": lambda value, actions: f"Rewinds to before invocation {value}",
    "route": _route,
    "renderUiWidgets": lambda value, actions: f"Asks the page to show {_count_words(value, 'widget')}",
    "setModelResponse": lambda value, actions: "Sets the model's answer, in the requested schema",
}


def _count_words(value: Any, word: str) -> str:
    number = len(value) if isinstance(value, dict | list) else 1
    return f"{number} {word}{'' if number == 1 else 's'}"


def _values(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else []


def _time(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
