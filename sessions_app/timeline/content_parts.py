"""Parts of an event's content, each told apart by what it is. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

EXCERPT_LENGTH = 20_000
"""Characters of a text, or of code or its output, that are shown at first; the rest comes when it is asked for."""

FIELDS = (
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
"""The fields of `google.genai.types.Part` that make a part what it is, text aside."""

SHOWN_FIELDS = {
    "functionCall": ("id", "name", "args"),
    "functionResponse": ("id", "name", "response", "parts"),
    "inlineData": ("data", "mimeType", "displayName"),
    "fileData": ("fileUri", "mimeType", "displayName"),
    "executableCode": ("code", "language", "id"),
    "codeExecutionResult": ("outcome", "output", "id"),
    "toolCall": ("id", "toolType", "args"),
    "toolResponse": ("id", "toolType", "response"),
}
"""What a page shows of each by itself; what else a part holds is shown as JSON."""


@dataclass(frozen=True, slots=True)
class Media:
    """Bytes without the bytes; `size` in bytes, None for a file that lies elsewhere. `pointer` is its part's place."""

    mime: str
    name: str
    size: int | None
    uri: str
    pointer: str


@dataclass(frozen=True, slots=True)
class TextExcerpt:
    """The beginning of a text; `rest` characters follow it. `pointer` is the place of the whole."""

    shown: str
    rest: int
    pointer: str


@dataclass(frozen=True, slots=True)
class Part:
    """A content part: `type` names the field that makes it, or is `text` or `other`; `pointer` is its place."""

    type: str
    body: dict[str, Any]
    pointer: str
    is_thought: bool

    @property
    def value(self) -> Any:
        """The field that makes the part; for `other` the whole part."""
        return self.body.get(self.type, self.body)

    @property
    def inner(self) -> str:
        """The place of the field that makes the part; for `other` that of the part."""
        return self.pointer if self.type == "other" else f"{self.pointer}/{self.type}"

    @property
    def name(self) -> str:
        """The name of the tool that is called or answers, or the language of code, or the outcome of running it."""
        names = ("name", "toolType", "language", "outcome")
        return next((said for name in names if (said := self._said(name))), "")

    @property
    def call_id(self) -> str:
        """The id of the call that is made or answered, empty for other parts."""
        return self._said("id") if self.type in ("functionCall", "functionResponse") else ""

    @property
    def text(self) -> TextExcerpt:
        """The text, the code or the output that the part carries; empty when it carries none."""
        name = {"executableCode": "code", "codeExecutionResult": "output"}.get(self.type)
        if name:
            return _excerpt(self.value.get(name), f"{self.inner}/{name}")
        return _excerpt(self.value if self.type == "text" else "", self.inner)

    @property
    def media(self) -> Media | None:
        """What is known of a blob or a file; None for other parts."""
        return _media(self.body, self.pointer)

    @property
    def answers_media(self) -> list[Media]:
        """The blobs and files that come with a function response."""
        given = self.value.get("parts") if self.type == "functionResponse" else None
        found = (_media(part, f"{self.inner}/parts/{number}") for number, part in _numbered_parts(given))
        return [media for media in found if media]

    @property
    def extras(self) -> dict[str, Any]:
        """What the part holds besides: signatures, metadata, and fields that nobody here knows."""
        if self.type == "other":
            return {}
        beside = {name: value for name, value in self.body.items() if name not in (self.type, "thought")}
        known = SHOWN_FIELDS.get(self.type, ())
        inside = self.value.items() if isinstance(self.value, dict) else ()
        return {**beside, **{name: value for name, value in inside if name not in known}}

    def _said(self, name: str) -> str:
        return _text_field(self.value, name) if isinstance(self.value, dict) else ""


def parts_of(content: object, pointer: str = "/content") -> list[Part]:
    """Return the parts of a `Content` that stands at `pointer` of its event."""
    given = content.get("parts") if isinstance(content, Mapping) else None
    return [_part(body, f"{pointer}/parts/{number}") for number, body in _numbered_parts(given)]


def _numbered_parts(parts: object) -> Iterable[tuple[int, dict[str, Any]]]:
    listed = parts if isinstance(parts, list) else []
    return ((number, part) for number, part in enumerate(listed) if isinstance(part, dict))


def _part(body: dict[str, Any], pointer: str) -> Part:
    kind = next((name for name in FIELDS if isinstance(body.get(name), dict)), "other")
    kind = "text" if kind == "other" and isinstance(body.get("text"), str) else kind
    return Part(kind, body, pointer, bool(body.get("thought")))


def _excerpt(text: object, pointer: str) -> TextExcerpt:
    whole = text if isinstance(text, str) else ""
    return TextExcerpt(whole[:EXCERPT_LENGTH], max(0, len(whole) - EXCERPT_LENGTH), pointer)


def _media(body: Mapping[str, Any], pointer: str) -> Media | None:
    blob, file = body.get("inlineData"), body.get("fileData")
    if isinstance(blob, dict):
        return Media(
            _text_field(blob, "mimeType"),
            _text_field(blob, "displayName"),
            _size(blob.get("data")),
            "",
            pointer,
        )
    if isinstance(file, dict):
        return Media(
            _text_field(file, "mimeType"),
            _text_field(file, "displayName"),
            None,
            _text_field(file, "fileUri"),
            pointer,
        )
    return None


def _text_field(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _size(data: object) -> int:
    """Return the number of bytes that base64 text stands for."""
    text = data if isinstance(data, str) else ""
    return (len(text) - text[-2:].count("=")) * 3 // 4
