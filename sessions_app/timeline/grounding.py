"""Grounding and citations of an answer, from `google.genai`'s metadata. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from sessions_app.timeline.event_fields import is_count, list_field, object_field, objects_field, other_fields

SCHEMES = frozenset({"http", "https"})


@dataclass(frozen=True, slots=True)
class Source:
    """A source. `uri` is as given; `url` is empty unless browsers can open it."""

    number: int
    kind: str
    title: str
    uri: str
    url: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Support:
    """A segment of the answer and its sources, as (number, confidence in percent or None)."""

    text: str
    sources: list[tuple[int, int | None]]


@dataclass(frozen=True, slots=True)
class Grounding:
    """Grounding of an answer. `queries` are (kind, text); `more` has the other fields of the metadata."""

    queries: list[tuple[str, str]]
    sources: list[Source]
    supports: list[Support]
    more: dict[str, Any]


def grounding_of(metadata: Mapping[str, Any]) -> Grounding | None:
    """Return the grounding in an event's grounding metadata; None if it is empty."""
    if not metadata:
        return None
    kinds = {"webSearchQueries": "web", "imageSearchQueries": "images", "retrievalQueries": "retrieval"}
    return Grounding(
        queries=[(kind, str(text)) for name, kind in kinds.items() for text in list_field(metadata, name)],
        sources=[
            _source(number, chunk)
            for number, chunk in enumerate(objects_field(metadata, "groundingChunks"), 1)
        ],
        supports=[_support(each) for each in objects_field(metadata, "groundingSupports")],
        more=other_fields({*kinds, "groundingChunks", "groundingSupports"}, metadata),
    )


def citations_of(metadata: Mapping[str, Any]) -> list[tuple[Source, dict[str, Any]]]:
    """Return (source, other fields) of an event's citation metadata, in either of its spellings."""
    citations = []
    for number, each in enumerate(
        objects_field(metadata, "citations") or objects_field(metadata, "citationSources"), 1
    ):
        uri = str(each.get("uri") or "")
        source = Source(number, "", str(each.get("title") or uri), uri, _link(uri))
        citations.append((source, other_fields({"uri", "title"}, each)))
    return citations


def _source(number: int, chunk: Mapping[str, Any]) -> Source:
    kind = next((name for name, value in chunk.items() if isinstance(value, dict)), "")
    where = object_field(chunk, kind)
    uri = str(where.get("uri") or where.get("imageUri") or where.get("sourceUri") or "")
    title = str(where.get("title") or where.get("domain") or uri or kind)
    words = {"retrievedContext": "document", "web": "page"}
    return Source(number, words.get(kind, kind), title, uri, _link(uri), str(where.get("text") or ""))


def _support(support: Mapping[str, Any]) -> Support:
    numbers = [number + 1 for number in list_field(support, "groundingChunkIndices") if is_count(number)]
    scores = list_field(support, "confidenceScores")
    confident = [
        round(100 * scores[place]) if place < len(scores) and isinstance(scores[place], int | float) else None
        for place in range(len(numbers))
    ]
    text = str(object_field(support, "segment").get("text") or "")
    return Support(text, list(zip(numbers, confident, strict=True)))


def _link(uri: str) -> str:
    """Return an HTTP URL, else an empty text: other schemes could run scripts."""
    try:
        return uri if urlsplit(uri).scheme in SCHEMES else ""
    except ValueError:
        return ""
