"""One event in full: its parts, its delta, its actions and the JSON that is stored."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sessions_app import wire
from sessions_app.models import AgentSession, Event
from sessions_app.timeline import window as windows
from sessions_app.timeline.changes import KeyChange, changes_of
from sessions_app.timeline.items import Item
from sessions_app.timeline.reading import read

VALUE_LIMIT = 2_000
"""Characters of an old or a new value in the delta; the whole value has an address of its own."""

RAW_LIMIT = 200_000
"""Characters of raw JSON on the page; the rest is a download away."""

PART_FIELDS = (
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
)


@dataclass(frozen=True, slots=True)
class Media:
    """Bytes without the bytes; `size` in bytes, None for a file that lies elsewhere."""

    mime: str
    name: str
    size: int | None
    uri: str


@dataclass(frozen=True, slots=True)
class Part:
    """A content part: `type` names the field that makes it, or is `other`; `pointer` is its place."""

    type: str
    body: dict[str, Any]
    pointer: str
    is_thought: bool

    @property
    def value(self) -> Any:
        """The field that makes the part; for `other` the whole part."""
        return self.body.get(self.type, self.body)

    @property
    def media(self) -> Media:
        """What is known of a blob or a file, without its bytes."""
        size = len(self.value.get("data") or "") * 3 // 4 if self.type == "inlineData" else None
        return Media(
            mime=self.value.get("mimeType") or "",
            name=self.value.get("displayName") or "",
            size=size,
            uri=self.value.get("fileUri") or "",
        )


@dataclass(frozen=True, slots=True)
class Inspection:
    """An event as the inspector shows it."""

    item: Item
    body: dict[str, Any]
    parts: list[Part]
    changes: list[KeyChange]
    raw: str
    raw_size: int

    @property
    def event(self) -> Event:
        """The row."""
        return self.item.event

    @property
    def actions(self) -> dict[str, Any]:
        """The event's actions; what is empty by default is left out."""
        actions: dict[str, Any] = self.body.get("actions") or {}
        return {name: value for name, value in actions.items() if value not in ({}, [], None)}

    @property
    def fields(self) -> dict[str, Any]:
        """What stands in the event beside content and actions: usage, model, errors, metadata, …"""
        apart = {"content", "actions", "id", "invocationId", "author", "timestamp", "branch"}
        return {
            name: value
            for name, value in self.body.items()
            if name not in apart and value not in ({}, [], None, {"path": ""})
        }

    @property
    def is_raw_cut(self) -> bool:
        """Tell whether `raw` is only the beginning."""
        return self.raw_size > len(self.raw)


def inspect(session: AgentSession, event: Event) -> Inspection:
    """Return an event in full. `event` has its `data` loaded."""
    body = json.loads(event.data)
    raw = pretty(body)
    around = windows.Window([event], session.last_seq)
    [group] = read(session, around).groups
    return Inspection(
        item=group.rows[0].head,
        body=body,
        parts=[_part(part, number) for number, part in enumerate(wire.parts_of(body))],
        changes=changes_of(session, [event], length=VALUE_LIMIT).get(event.seq, []),
        raw=raw[:RAW_LIMIT],
        raw_size=len(raw),
    )


def pretty(value: Any) -> str:
    """Return JSON text for reading."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def _part(body: dict[str, Any], number: int) -> Part:
    kind = next((name for name in PART_FIELDS if isinstance(body.get(name), dict)), "other")
    kind = "text" if kind == "other" and isinstance(body.get("text"), str) else kind
    return Part(kind, body, f"/content/parts/{number}", bool(body.get("thought")))
