"""Parts of an event's content, by type. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sessions_app.store.events.content import find_blob, list_media_blocks, read_a2a_data
from sessions_app.timeline.tool_displays import FileEdit, ShellOutput, read_file_edit, read_shell_output

EXCERPT_LENGTH = 20_000
"""Characters of a text, code or output that are shown at first; the rest is loaded on request."""

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
"""Fields of `google.genai.types.Part` that determine its type, besides text."""

DATA = "data"
"""Type of a part with JSON data of an agent on another server."""

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
"""Fields with their own display; other fields of a part are shown as JSON."""


@dataclass(frozen=True, slots=True)
class Media:
    """Metadata of a blob or file; `size` in bytes, None for an external file. `pointer` locates its part."""

    mime: str
    name: str
    size: int | None
    uri: str
    pointer: str


@dataclass(frozen=True, slots=True)
class TextExcerpt:
    """The start of a text, which has `rest` more characters. `pointer` locates the full text."""

    start: str
    rest: int
    pointer: str


@dataclass(frozen=True, slots=True)
class Part:
    """A content part: `type` is its determining field, `text` or `other`; `pointer` locates it."""

    type: str
    body: dict[str, Any]
    pointer: str
    is_thought: bool

    @property
    def value(self) -> Any:
        """The value of the determining field; for `other` the whole part."""
        return self.body.get(self.type, self.body)

    @property
    def inner(self) -> str:
        """JSON pointer to `value`."""
        return self.pointer if self.type == "other" else f"{self.pointer}/{self.type}"

    @property
    def name(self) -> str:
        """Name of the tool, language of the code, or outcome of its execution."""
        names = ("name", "toolType", "language", "outcome")
        return next((text for name in names if (text := self._value_text(name))), "")

    @property
    def call_id(self) -> str:
        """Id of the call that is made or answered; empty for other parts."""
        return self._value_text("id") if self.type in ("functionCall", "functionResponse") else ""

    @property
    def text(self) -> TextExcerpt:
        """The text, code or output of the part; empty if it has none."""
        name = {"executableCode": "code", "codeExecutionResult": "output"}.get(self.type)
        if name:
            return _excerpt_text(self.value.get(name), f"{self.inner}/{name}")
        return _excerpt_text(self.value if self.type == "text" else "", self.inner)

    @property
    def media(self) -> Media | None:
        """Metadata of a blob or file; None for other parts."""
        return _read_media(self.body, self.pointer)

    @property
    def answers_media(self) -> list[Media]:
        """Blobs and files of a function response, and those in a result of an MCP server."""
        if self.type != "functionResponse":
            return []
        parts, blocks = (
            _numbered_parts(self.value.get("parts")),
            list_media_blocks(self.value.get("response")),
        )
        media_list = [
            *(_read_media(part, f"{self.inner}/parts/{number}") for number, part in parts),
            *(_read_media(block, f"{self.inner}/response{inner}") for inner, block in blocks),
        ]
        return [media for media in media_list if media]

    @property
    def file_edit(self) -> FileEdit | None:
        """The edit of a file that a call asks for; None for other parts."""
        return read_file_edit(self.value.get("args")) if self.type == "functionCall" else None

    @property
    def shell_output(self) -> ShellOutput | None:
        """Output of a command in the result of a tool; None for other parts."""
        return read_shell_output(self.value.get("response")) if self.type == "functionResponse" else None

    @property
    def extras(self) -> dict[str, Any]:
        """Other fields of the part: signatures, metadata, unknown fields."""
        if self.type == "other":
            return {}
        beside = {name: value for name, value in self.body.items() if name not in (self.type, "thought")}
        fields = SHOWN_FIELDS.get(self.type, ())
        inside = self.value.items() if fields and isinstance(self.value, dict) else ()
        return {**beside, **{name: value for name, value in inside if name not in fields}}

    def _value_text(self, name: str) -> str:
        return _text_field(self.value, name) if isinstance(self.value, dict) else ""


def parse_parts(content: object, pointer: str = "/content") -> list[Part]:
    """Return the parts of a `Content`, which `pointer` locates in its event."""
    parts = content.get("parts") if isinstance(content, Mapping) else None
    return [_build_part(body, f"{pointer}/parts/{number}") for number, body in _numbered_parts(parts)]


def _numbered_parts(parts: object) -> Iterable[tuple[int, dict[str, Any]]]:
    listed = parts if isinstance(parts, list) else []
    return ((number, part) for number, part in enumerate(listed) if isinstance(part, dict))


def _build_part(body: dict[str, Any], pointer: str) -> Part:
    if (data := read_a2a_data(body)) is not None:
        shown = {name: value for name, value in body.items() if name != "inlineData"}
        return Part(DATA, {**shown, DATA: data}, pointer, bool(body.get("thought")))
    kind = next((name for name in FIELDS if isinstance(body.get(name), dict)), "other")
    kind = "text" if kind == "other" and isinstance(body.get("text"), str) else kind
    return Part(kind, body, pointer, bool(body.get("thought")))


def _excerpt_text(text: object, pointer: str) -> TextExcerpt:
    full_text = text if isinstance(text, str) else ""
    return TextExcerpt(full_text[:EXCERPT_LENGTH], max(0, len(full_text) - EXCERPT_LENGTH), pointer)


def _read_media(body: Mapping[str, Any], pointer: str) -> Media | None:
    blob, file = find_blob(body), body.get("fileData")
    if isinstance(blob, dict):
        return Media(
            _text_field(blob, "mimeType"),
            _text_field(blob, "displayName"),
            _decoded_size(blob.get("data")),
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


def _decoded_size(data: object) -> int:
    """Return the decoded size of base64 text."""
    text = data if isinstance(data, str) else ""
    return (len(text) - text[-2:].count("=")) * 3 // 4
