"""Details of an event beside its content: short facts, transcriptions, and other fields as JSON. Pure.

All fields are shown: fields without a label here, including unknown ones, are shown as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sessions_app.presentation.json_pointer import join_pointer
from sessions_app.store import scopes
from sessions_app.timeline.event_fields import EMPTY, object_field, other_fields

SHOWN_SEPARATELY = frozenset(
    {"content", "actions", "id", "invocationId", "author", "timestamp", "branch", "errorCode", "errorMessage"}
)
"""Fields that the inspector shows beside these details."""

LABELS = {
    "modelVersion": "model",
    "finishReason": "finish reason",
    "turnComplete": "turn complete",
    "turnCompleteReason": "turn complete, because",
    "interactionStatus": "interaction",
    "interactionId": "interaction id",
    "environmentId": "environment id",
    "interrupted": "interrupted",
    "partial": "partial",
    "liveSessionId": "live session",
    "isolationScope": "isolation scope",
    "longRunningToolIds": "long-running calls",
    "avgLogprobs": "average log probability",
}
"""Labels of fields with a short value."""

TREES = {
    "usageMetadata": "Token usage",
    "cacheMetadata": "Context cache",
    "groundingMetadata": "Grounding",
    "citationMetadata": "Citations",
    "output": "Output of the node",
    "customMetadata": "Custom metadata",
    "logprobsResult": "Log probabilities",
    "voiceActivity": "Voice activity",
    "liveSessionResumptionUpdate": "Resumption of the live session",
    "goAway": "The live server goes away",
}
"""Fields that are shown as JSON under a title."""

SPECIAL = frozenset({"inputTranscription", "outputTranscription", "nodeInfo"})

MAX_SHORT = 400
"""Maximum length of a value on one line; longer values are shown as JSON."""


@dataclass(frozen=True, slots=True)
class Transcription:
    """Transcription of audio input or output."""

    label: str
    text: str
    is_finished: bool
    more: dict[str, Any]
    pointer: str


@dataclass(frozen=True, slots=True)
class JsonField:
    """A field that is shown as JSON; `is_known` tells whether it is a field of ADK's `Event`."""

    title: str
    value: Any
    pointer: str
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class EventDetails:
    """All fields of an event except content and actions."""

    facts: list[tuple[str, str]]
    transcriptions: list[Transcription]
    trees: list[JsonField] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Tell whether there are no details."""
        return not (self.facts or self.transcriptions or self.trees)


def parse_details(body: Mapping[str, Any]) -> EventDetails:
    """Return the details of an event in wire form."""
    values = {label: body[name] for name, label in LABELS.items() if body.get(name) not in EMPTY}
    facts = {**{label: value for label, value in values.items() if _is_short(value)}, **_node_fields(body)}
    return EventDetails(
        facts=[(label, _short_text(value)) for label, value in facts.items()],
        transcriptions=[
            _read_transcription(label, object_field(body, name), f"/{name}")
            for name, label in (("inputTranscription", "heard"), ("outputTranscription", "said aloud"))
            if object_field(body, name)
        ],
        trees=_json_fields(body),
    )


def _node_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    node = object_field(body, "nodeInfo")
    words = {"path": "node", "outputFor": "output for", "messageAsOutput": "message is output"}
    return {
        words.get(name, f"node {name}"): value if _is_short(value) else scopes.dumps(value)
        for name, value in node.items()
        if value not in ("", *EMPTY)
    }


def _read_transcription(label: str, transcription: Mapping[str, Any], pointer: str) -> Transcription:
    more = other_fields({"text", "finished"}, transcription)
    return Transcription(
        label, str(transcription.get("text") or ""), bool(transcription.get("finished")), more, pointer
    )


def _json_fields(body: Mapping[str, Any]) -> list[JsonField]:
    trees = [
        JsonField(title, body[name], f"/{name}")
        for name, title in TREES.items()
        if name in body and body[name] not in EMPTY
    ]
    excluded = {*SHOWN_SEPARATELY, *TREES, *SPECIAL}
    for name, value in body.items():
        if name in excluded or value in EMPTY or (name in LABELS and _is_short(value)):
            continue
        trees.append(JsonField(LABELS.get(name, name), value, join_pointer(name), is_known=name in LABELS))
    wrong = [name for name in SPECIAL if body.get(name) not in EMPTY and not isinstance(body[name], dict)]
    return [*trees, *(JsonField(name, body[name], f"/{name}") for name in sorted(wrong))]


def _is_short(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value) and len(_short_text(value)) <= MAX_SHORT
    return isinstance(value, str | bool | int | float) and len(str(value)) <= MAX_SHORT


def _short_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return "yes" if value is True else "no" if value is False else str(value)
