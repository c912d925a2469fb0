"""Contents of a model request for display: role, texts, calls and results. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

TEXT_SHOWN = 4_000
"""Characters of a text that are shown; the JSON has the whole text."""


@dataclass(frozen=True, slots=True)
class ContentPart:
    """A part of a content.

    Attributes:
        kind: text, thought, call, result or other.
        name: name of the tool of a call or result.
        rest: number of characters that are not shown.
        pointer: JSON pointer to `value` in the JSON of the call.
    """

    kind: str
    text: str = ""
    rest: int = 0
    name: str = ""
    value: Any = None
    pointer: str = ""


@dataclass(frozen=True, slots=True)
class RequestContent:
    """A content: its position in the request, from 1, and its parts; None if it is not stored any more."""

    place: int
    role: str
    parts: list[ContentPart] | None


def describe_content(number: int, value: Any, pointer: str) -> RequestContent:
    """Return a stored content for display. `pointer` locates it in the JSON of its call."""
    if not isinstance(value, dict):
        return RequestContent(number, "", None)
    return RequestContent(number, str(value.get("role") or "no role"), list(_describe_parts(value, pointer)))


def _describe_parts(value: dict[str, Any], pointer: str) -> Iterator[ContentPart]:
    for number, part in enumerate(value.get("parts") or []):
        yield _describe_part(part if isinstance(part, dict) else {"part": part}, f"{pointer}/parts/{number}")


def _describe_part(part: dict[str, Any], pointer: str) -> ContentPart:
    if isinstance(text := part.get("text"), str):
        kind = "thought" if part.get("thought") else "text"
        return ContentPart(kind, text[:TEXT_SHOWN], max(0, len(text) - TEXT_SHOWN))
    for kind, field, inner in (("call", "functionCall", "args"), ("result", "functionResponse", "response")):
        if isinstance(value := part.get(field), dict):
            return ContentPart(
                kind,
                name=str(value.get("name") or ""),
                value=value.get(inner),
                pointer=f"{pointer}/{field}/{inner}",
            )
    return ContentPart("other", value=part, pointer=pointer)
