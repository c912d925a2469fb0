"""Details of an event beside its content: model call, grounding, transcriptions, other fields. Pure.

All fields are shown: fields without a label here, including unknown ones, are shown as JSON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sessions_app import scopes
from sessions_app.presentation.json_pointer import pointer_of
from sessions_app.timeline.event_fields import EMPTY, object_field, other_fields
from sessions_app.timeline.grounding import Grounding, Source, citations_of, grounding_of
from sessions_app.timeline.token_usage import TokenUsage, usage_of

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
}
"""Labels of fields with a short value."""

TREES = {
    "output": "Output of the node",
    "customMetadata": "Custom metadata",
    "logprobsResult": "Log probabilities",
    "voiceActivity": "Voice activity",
    "liveSessionResumptionUpdate": "Resumption of the live session",
    "goAway": "The live server goes away",
}
"""Fields that are shown as JSON under a title."""

SPECIAL = frozenset(
    {
        "usageMetadata",
        "avgLogprobs",
        "groundingMetadata",
        "citationMetadata",
        "cacheMetadata",
        "inputTranscription",
        "outputTranscription",
        "nodeInfo",
    }
)

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
class ContextCache:
    """The context cache of a model call. Times in epoch seconds."""

    name: str
    fingerprint: str
    invocations: int | None
    contents: int | None
    created_at: float | None
    expires_at: float | None
    more: dict[str, Any]


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
    usage: TokenUsage | None
    certainty: tuple[float, float] | None
    grounding: Grounding | None
    citations: list[tuple[Source, dict[str, Any]]]
    transcriptions: list[Transcription]
    cache: ContextCache | None
    trees: list[JsonField] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Tell whether there are no details."""
        details = (self.facts, self.usage, self.certainty, self.grounding, self.citations, self.cache)
        return not any((*details, self.transcriptions, self.trees))


def details_of(body: Mapping[str, Any]) -> EventDetails:
    """Return the details of an event in wire form."""
    values = {label: body[name] for name, label in LABELS.items() if body.get(name) not in EMPTY}
    facts = {**{label: value for label, value in values.items() if _is_short(value)}, **_node(body)}
    return EventDetails(
        facts=[(label, _short(value)) for label, value in facts.items()],
        usage=usage_of(object_field(body, "usageMetadata")),
        certainty=_certainty(body.get("avgLogprobs")),
        grounding=grounding_of(object_field(body, "groundingMetadata")),
        citations=citations_of(object_field(body, "citationMetadata")),
        transcriptions=[
            _transcription(label, object_field(body, name), f"/{name}")
            for name, label in (("inputTranscription", "heard"), ("outputTranscription", "said aloud"))
            if object_field(body, name)
        ],
        cache=_cache(object_field(body, "cacheMetadata")),
        trees=_trees(body),
    )


def _node(body: Mapping[str, Any]) -> dict[str, Any]:
    node = object_field(body, "nodeInfo")
    words = {"path": "node", "outputFor": "output for", "messageAsOutput": "message is output"}
    return {
        words.get(name, f"node {name}"): value if _is_short(value) else scopes.dumps(value)
        for name, value in node.items()
        if value not in ("", *EMPTY)
    }


def _certainty(average: Any) -> tuple[float, float] | None:
    """Return (average log probability, corresponding probability of a token in percent)."""
    if not isinstance(average, int | float) or isinstance(average, bool):
        return None
    return float(average), 100 * math.exp(min(0.0, float(average)))


def _transcription(label: str, transcription: Mapping[str, Any], pointer: str) -> Transcription:
    more = other_fields({"text", "finished"}, transcription)
    return Transcription(
        label, str(transcription.get("text") or ""), bool(transcription.get("finished")), more, pointer
    )


def _cache(metadata: Mapping[str, Any]) -> ContextCache | None:
    """Read the cache metadata, which ADK writes in snake case (`google/adk/models/cache_metadata.py`)."""
    if not metadata:
        return None
    names = {name.replace("_", "").lower(): name for name in metadata}

    def take(name: str, kind: Any) -> Any:
        value = metadata.get(names.get(name, ""))
        return value if isinstance(value, kind) and not isinstance(value, bool) else None

    shown_names = ("cachename", "fingerprint", "invocationsused", "contentscount", "createdat", "expiretime")
    return ContextCache(
        name=take("cachename", str) or "",
        fingerprint=take("fingerprint", str) or "",
        invocations=take("invocationsused", int),
        contents=take("contentscount", int),
        created_at=take("createdat", int | float),
        expires_at=take("expiretime", int | float),
        more={said_as: metadata[said_as] for name, said_as in names.items() if name not in shown_names},
    )


def _trees(body: Mapping[str, Any]) -> list[JsonField]:
    trees = [
        JsonField(title, body[name], f"/{name}")
        for name, title in TREES.items()
        if name in body and body[name] not in EMPTY
    ]
    excluded = {*SHOWN_SEPARATELY, *TREES, *SPECIAL}
    for name, value in body.items():
        if name in excluded or value in EMPTY or (name in LABELS and _is_short(value)):
            continue
        trees.append(JsonField(LABELS.get(name, name), value, pointer_of(name), is_known=name in LABELS))
    wrong = [name for name in SPECIAL if name in body and not _is_readable(name, body[name])]
    return [*trees, *(JsonField(name, body[name], f"/{name}") for name in sorted(wrong))]


def _is_readable(name: str, value: Any) -> bool:
    if value in EMPTY:
        return True
    return _certainty(value) is not None if name == "avgLogprobs" else isinstance(value, dict)


def _is_short(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(each, str) for each in value) and len(_short(value)) <= MAX_SHORT
    return isinstance(value, str | bool | int | float) and len(str(value)) <= MAX_SHORT


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return "yes" if value is True else "no" if value is False else str(value)
