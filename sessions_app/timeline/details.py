"""What an event says of itself beside its content: the model's call, grounding, citations, what was heard. Pure.

Nothing is left out: a field that has no words of its own here is shown as JSON, also one that nobody knows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from sessions_app import state
from sessions_app.presentation.jsonpointer import pointer_of

SHOWN_ELSEWHERE = frozenset(
    {"content", "actions", "id", "invocationId", "author", "timestamp", "branch", "errorCode", "errorMessage"}
)
"""Fields that the inspector shows beside these details."""

WORDS = {
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
"""What a person calls the fields that are one short value."""

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

SHORT = 400
"""Characters of a value that stands on a line; a longer one opens as JSON."""

SCHEMES = frozenset({"http", "https"})
EMPTY: tuple[Any, ...] = (None, {}, [], {"path": ""})


@dataclass(frozen=True, slots=True)
class Share:
    """A kind of tokens: how many, and its place in the bar of all, both in percent of the whole."""

    name: str
    label: str
    count: int
    start: float = 0.0
    width: float = 0.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens by kind. The parts of `bar` add up to what was counted; `cached` is a part of the prompt."""

    total: int
    prompt: int
    cached: int
    bar: list[Share]
    modalities: list[tuple[str, str, int]]
    more: dict[str, Any]

    @property
    def cached_percent(self) -> int:
        """How much of the prompt came from the cache."""
        return round(100 * self.cached / self.prompt) if self.prompt else 0


@dataclass(frozen=True, slots=True)
class Source:
    """Where something was found. `url` is empty unless a browser may follow it; `uri` is what was said."""

    number: int
    kind: str
    title: str
    uri: str
    url: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Support:
    """A stretch of the answer and the sources that bear it, as (number, confidence in percent or None)."""

    text: str
    sources: list[tuple[int, int | None]]


@dataclass(frozen=True, slots=True)
class Grounding:
    """What the answer rests on. `more` is what else the metadata holds."""

    queries: list[tuple[str, str]]
    sources: list[Source]
    supports: list[Support]
    more: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Transcription:
    """What was heard or said aloud."""

    label: str
    text: str
    is_finished: bool
    more: dict[str, Any]
    pointer: str


@dataclass(frozen=True, slots=True)
class Cache:
    """The context cache of a model call. Times in epoch seconds."""

    name: str
    fingerprint: str
    invocations: int | None
    contents: int | None
    created_at: float | None
    expires_at: float | None
    more: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tree:
    """A field that is shown as JSON; `is_known` tells whether ADK's `Event` has such a field."""

    title: str
    value: Any
    pointer: str
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class Details:
    """All that an event says of itself, its content and actions aside."""

    facts: list[tuple[str, str]]
    usage: Usage | None
    certainty: tuple[float, float] | None
    grounding: Grounding | None
    citations: list[tuple[Source, dict[str, Any]]]
    transcriptions: list[Transcription]
    cache: Cache | None
    trees: list[Tree] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Tell whether the event says nothing of itself."""
        said = (self.facts, self.usage, self.certainty, self.grounding, self.citations, self.cache)
        return not any((*said, self.transcriptions, self.trees))


def details_of(body: Mapping[str, Any]) -> Details:
    """Return the details of an event in wire form."""
    named = {label: body[name] for name, label in WORDS.items() if body.get(name) not in EMPTY}
    facts = {**{label: value for label, value in named.items() if _is_short(value)}, **_node(body)}
    return Details(
        facts=[(label, _short(value)) for label, value in facts.items()],
        usage=_usage(_mapping(body, "usageMetadata")),
        certainty=_certainty(body.get("avgLogprobs")),
        grounding=_grounding(_mapping(body, "groundingMetadata")),
        citations=_citations(_mapping(body, "citationMetadata")),
        transcriptions=[
            _transcription(label, _mapping(body, name), f"/{name}")
            for name, label in (("inputTranscription", "heard"), ("outputTranscription", "said aloud"))
            if _mapping(body, name)
        ],
        cache=_cache(_mapping(body, "cacheMetadata")),
        trees=_trees(body),
    )


def link_of(uri: object) -> str:
    """Return an address that a browser may follow, else nothing: what agents write may run scripts."""
    try:
        return uri if isinstance(uri, str) and urlsplit(uri).scheme in SCHEMES else ""
    except ValueError:
        return ""


def _node(body: Mapping[str, Any]) -> dict[str, Any]:
    said = _mapping(body, "nodeInfo")
    words = {"path": "node", "outputFor": "output for", "messageAsOutput": "message is output"}
    return {
        words.get(name, f"node {name}"): value if _is_short(value) else state.dumps(value)
        for name, value in said.items()
        if value not in ("", *EMPTY)
    }


def _usage(said: Mapping[str, Any]) -> Usage | None:
    counts = {name: value for name, value in said.items() if name.endswith("TokenCount") and _is_count(value)}
    if not said:
        return None
    cached, prompt = counts.get("cachedContentTokenCount", 0), counts.get("promptTokenCount", 0)
    shares = [
        Share("cached", "prompt, from the cache", min(cached, prompt)),
        Share("prompt", "prompt" if not cached else "prompt, not cached", max(0, prompt - cached)),
        Share("tool", "results of tools", counts.get("toolUsePromptTokenCount", 0)),
        Share("thoughts", "thoughts", counts.get("thoughtsTokenCount", 0)),
        Share("output", "output", counts.get("candidatesTokenCount", 0)),
    ]
    shown = {*_COUNTS, *_DETAILS}
    return Usage(
        total=counts.get("totalTokenCount", sum(share.count for share in shares)),
        prompt=prompt,
        cached=cached,
        bar=_placed([share for share in shares if share.count]),
        modalities=[
            (label, str(each.get("modality") or "?"), each["tokenCount"])
            for name, label in _DETAILS.items()
            for each in _rows(said, name)
            if _is_count(each.get("tokenCount"))
        ],
        more={name: value for name, value in said.items() if name not in shown and value not in EMPTY},
    )


_COUNTS = frozenset(
    {
        "promptTokenCount",
        "candidatesTokenCount",
        "totalTokenCount",
        "cachedContentTokenCount",
        "thoughtsTokenCount",
        "toolUsePromptTokenCount",
    }
)
_DETAILS = {
    "promptTokensDetails": "prompt",
    "cacheTokensDetails": "cached",
    "toolUsePromptTokensDetails": "results of tools",
    "candidatesTokensDetails": "output",
}


def _placed(shares: list[Share]) -> list[Share]:
    whole = sum(share.count for share in shares)
    placed, start = [], 0.0
    for share in shares:
        width = 100 * share.count / whole
        placed.append(Share(share.name, share.label, share.count, round(start, 3), round(width, 3)))
        start += width
    return placed


def _certainty(average: Any) -> tuple[float, float] | None:
    """Return (average log probability, the probability of a token that it stands for in percent)."""
    if not isinstance(average, int | float) or isinstance(average, bool):
        return None
    return float(average), 100 * math.exp(min(0.0, float(average)))


def _grounding(said: Mapping[str, Any]) -> Grounding | None:
    if not said:
        return None
    kinds = {"webSearchQueries": "web", "imageSearchQueries": "images", "retrievalQueries": "retrieval"}
    shown = {*kinds, "groundingChunks", "groundingSupports"}
    return Grounding(
        queries=[(kind, str(text)) for name, kind in kinds.items() for text in _list(said, name)],
        sources=[_source(number, chunk) for number, chunk in enumerate(_rows(said, "groundingChunks"), 1)],
        supports=[_support(each) for each in _rows(said, "groundingSupports")],
        more={name: value for name, value in said.items() if name not in shown and value not in EMPTY},
    )


def _source(number: int, chunk: Mapping[str, Any]) -> Source:
    kind = next((name for name, value in chunk.items() if isinstance(value, dict)), "")
    where = _mapping(chunk, kind)
    uri = str(where.get("uri") or where.get("imageUri") or where.get("sourceUri") or "")
    title = str(where.get("title") or where.get("domain") or uri or kind)
    words = {"retrievedContext": "document", "web": "page"}
    return Source(number, words.get(kind, kind), title, uri, link_of(uri), str(where.get("text") or ""))


def _support(said: Mapping[str, Any]) -> Support:
    numbers = [number + 1 for number in _list(said, "groundingChunkIndices") if _is_count(number)]
    scores = _list(said, "confidenceScores")
    confident = [
        round(100 * scores[place]) if place < len(scores) and isinstance(scores[place], int | float) else None
        for place in range(len(numbers))
    ]
    return Support(
        str(_mapping(said, "segment").get("text") or ""), list(zip(numbers, confident, strict=True))
    )


def _citations(said: Mapping[str, Any]) -> list[tuple[Source, dict[str, Any]]]:
    found = []
    for number, each in enumerate(_rows(said, "citations") or _rows(said, "citationSources"), 1):
        uri = str(each.get("uri") or "")
        more = {
            name: value for name, value in each.items() if name not in ("uri", "title") and value not in EMPTY
        }
        found.append((Source(number, "", str(each.get("title") or uri), uri, link_of(uri)), more))
    return found


def _transcription(label: str, said: Mapping[str, Any], pointer: str) -> Transcription:
    more = {
        name: value for name, value in said.items() if name not in ("text", "finished") and value not in EMPTY
    }
    return Transcription(label, str(said.get("text") or ""), bool(said.get("finished")), more, pointer)


def _cache(said: Mapping[str, Any]) -> Cache | None:
    """Read the one part of an event that ADK writes in snake case (`google/adk/models/cache_metadata.py`)."""
    if not said:
        return None
    named = {name.replace("_", "").lower(): name for name in said}

    def take(name: str, kind: Any) -> Any:
        value = said.get(named.get(name, ""))
        return value if isinstance(value, kind) and not isinstance(value, bool) else None

    shown = ("cachename", "fingerprint", "invocationsused", "contentscount", "createdat", "expiretime")
    return Cache(
        name=take("cachename", str) or "",
        fingerprint=take("fingerprint", str) or "",
        invocations=take("invocationsused", int),
        contents=take("contentscount", int),
        created_at=take("createdat", int | float),
        expires_at=take("expiretime", int | float),
        more={said_as: said[said_as] for name, said_as in named.items() if name not in shown},
    )


def _trees(body: Mapping[str, Any]) -> list[Tree]:
    found = [
        Tree(title, body[name], f"/{name}")
        for name, title in TREES.items()
        if name in body and body[name] not in EMPTY
    ]
    told = {*SHOWN_ELSEWHERE, *TREES, *SPECIAL}
    for name, value in body.items():
        if name in told or value in EMPTY or (name in WORDS and _is_short(value)):
            continue
        found.append(Tree(WORDS.get(name, name), value, pointer_of(name), is_known=name in WORDS))
    wrong = [name for name in SPECIAL if name in body and not _is_readable(name, body[name])]
    return [*found, *(Tree(name, body[name], f"/{name}") for name in sorted(wrong))]


def _is_readable(name: str, value: Any) -> bool:
    if value in EMPTY:
        return True
    return _certainty(value) is not None if name == "avgLogprobs" else isinstance(value, dict)


def _is_short(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(each, str) for each in value) and len(_short(value)) <= SHORT
    return isinstance(value, str | bool | int | float) and len(str(value)) <= SHORT


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return "yes" if value is True else "no" if value is False else str(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _mapping(said: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = said.get(name)
    return value if isinstance(value, dict) else {}


def _list(said: Mapping[str, Any], name: str) -> list[Any]:
    value = said.get(name)
    return value if isinstance(value, list) else []


def _rows(said: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    return [each for each in _list(said, name) if isinstance(each, dict)]
