"""Comparison of two events of a session, field by field, and of the state at them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sessions_app import scopes
from sessions_app.errors import BadInput
from sessions_app.events.kinds import kind_properties
from sessions_app.lookup import find_event
from sessions_app.models import AgentSession, Event
from sessions_app.presentation import text_diff, value_diff
from sessions_app.presentation.text_diff import DiffPiece
from sessions_app.presentation.value_diff import DiffLine
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.content_parts import Part, parts_of
from sessions_app.timeline.event_details import LABELS
from sessions_app.timeline.event_fields import EMPTY, object_field
from sessions_app.timeline.key_changes import truncate
from sessions_app.timeline.state_difference import StateDifferences, state_differences

TEXT_LIMIT = 20_000
"""Characters of a text that are compared word by word."""

SHORT_TEXT = 32
"""Maximum length of texts that are shown side by side without a word difference: words, names, ids."""

SIMILAR_SCANNED = 200
"""Earlier events of the same kind that are searched for one of the same author."""

MAX_KEYS = 100
"""Maximum number of differing state keys."""

NOT_COMPARED = frozenset(
    {"id", "content", "actions", "usageMetadata", "invocationId", "author", "timestamp", "branch"}
)
"""Fields of an event that are compared under another name, or that always differ, as the id."""


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A field of both events; None where an event lacks it.

    Attributes:
        name: name of the field, in words.
        left, right: the values as text, truncated if `pieces` or `lines` show them.
        differs: whether the values differ.
        by: signed difference of two numbers; empty for other values.
        left_pieces, right_pieces: texts with differences marked.
        lines: line difference of JSON values.
    """

    name: str
    left: str | None
    right: str | None
    differs: bool
    by: str = ""
    left_pieces: list[DiffPiece] = field(default_factory=list)
    right_pieces: list[DiffPiece] = field(default_factory=list)
    lines: list[DiffLine] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two events, the fields of both, and the state difference between them."""

    left: Event
    right: Event
    rows: list[ComparedRow]
    state: StateDifferences

    @property
    def different(self) -> list[ComparedRow]:
        """The fields that differ."""
        return [row for row in self.rows if row.differs]

    @property
    def same(self) -> list[ComparedRow]:
        """The fields that are equal."""
        return [row for row in self.rows if not row.differs]

    @property
    def seconds(self) -> float:
        """Absolute time between the events."""
        return abs(self.right.timestamp - self.left.timestamp)

    @property
    def apart(self) -> int:
        """Number of events from the left to the right one; negative if the right one is earlier."""
        return self.right.seq - self.left.seq


def compare_events(session: AgentSession, left: int, right: int) -> Comparison:
    """Return the comparison of two events, by their seqs.

    Raises:
        EventMissing: the session has no such event.
        BadInput: both seqs are the same.
    """
    if left == right:
        raise BadInput(f"Event {left} cannot be compared with itself.", hint="Choose two different events.")
    first, second = find_event(session, seq=left), find_event(session, seq=right)
    ours, theirs = dict(_fields(first)), dict(_fields(second))
    names = [*ours, *(name for name in theirs if name not in ours)]
    return Comparison(
        left=first,
        right=second,
        rows=[_row(name, ours.get(name), theirs.get(name)) for name in names],
        state=state_differences(session, str(first.seq), second, limit=MAX_KEYS),
    )


def find_similar_before(session: AgentSession, seq: int) -> int:
    """Return the seq of the last event of the same kind before an event, preferably of the same author.

    If there is none, return that of the previous event; 0 for the first event.

    Raises:
        EventMissing: the session has no such event.
    """
    event = find_event(session, seq=seq)
    earlier = windows.event_rows(session).filter(kind=event.kind, seq__lt=seq).order_by("-seq")
    near = list(earlier.values_list("seq", "author")[:SIMILAR_SCANNED])
    same = next((other for other, author in near if author == event.author), 0)
    return same or (near[0][0] if near else seq - 1)


def _fields(event: Event) -> Iterator[tuple[str, Any]]:
    """Yield (name in words, value) of every comparable field of an event."""
    body = json.loads(event.data)
    yield "kind", kind_properties(event.kind).label
    yield "author", event.author
    yield "invocation", event.invocation_id
    yield "branch", event.branch
    yield from _contents(parts_of(body.get("content")))
    for name, value in object_field(body, "usageMetadata").items():
        yield f"usage · {name}", value
    for name, value in object_field(body, "actions").items():
        inner = value.items() if name in _OPENED_FIELDS and isinstance(value, dict) else [("", value)]
        for key, each in inner:
            yield f"{_OPENED_FIELDS.get(name, 'action')} · {key or name}", each
    for name, value in body.items():
        if name not in NOT_COMPARED and value not in EMPTY:
            yield LABELS.get(name) or str(name), value


_OPENED_FIELDS = {"stateDelta": "state delta", "artifactDelta": "artifact"}


def _contents(parts: list[Part]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of parts. Parts are numbered per type, so equal positions are compared."""
    counts: dict[str, int] = {}
    for part in parts:
        kind = "thought" if part.is_thought else _KINDS.get(part.type, part.type)
        counts[kind] = counts.get(kind, 0) + 1
        name = kind if counts[kind] == 1 else f"{kind} {counts[kind]}"
        if part.type in ("functionCall", "functionResponse"):
            yield f"{name} · name", part.value.get("name")
            body = "args" if part.type == "functionCall" else "response"
            yield f"{name} · {body}", part.value.get(body)
        elif part.media:
            media = part.media
            yield name, {"type": media.mime, "name": media.name, "bytes": media.size, "uri": media.uri}
        else:
            yield name, part.value
        if part.extras:
            yield f"{name} · more", part.extras


_KINDS = {
    "functionCall": "call",
    "functionResponse": "result",
    "inlineData": "blob",
    "fileData": "file",
    "executableCode": "code",
    "codeExecutionResult": "output of code",
}


def _row(name: str, left: Any, right: Any) -> ComparedRow:
    if left == right and scopes.is_same_json(scopes.dumps(left), scopes.dumps(right)):
        return ComparedRow(name, _display(left), _display(right), differs=False)
    if isinstance(left, str) and isinstance(right, str) and max(len(left), len(right)) > SHORT_TEXT:
        return _compare_texts(name, left, right)
    ours, theirs = _json(left), _json(right)
    if value_diff.is_brief(ours, theirs) or left is None or right is None:
        return ComparedRow(name, _display(left), _display(right), differs=True, by=_growth(left, right))
    return ComparedRow(
        name,
        truncate(ours, 200),
        truncate(theirs, 200),
        differs=True,
        lines=value_diff.diff_lines(ours, theirs),
    )


def _compare_texts(name: str, left: str, right: str) -> ComparedRow:
    ours, theirs = text_diff.compare_texts(left[:TEXT_LIMIT], right[:TEXT_LIMIT])
    return ComparedRow(name, left, right, differs=True, left_pieces=ours, right_pieces=theirs)


def _display(value: Any) -> str | None:
    return truncate(value if isinstance(value, str) else _json(value), 2_000)


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _growth(left: Any, right: Any) -> str:
    numbers = [
        value for value in (left, right) if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return f"{numbers[1] - numbers[0]:+,}" if len(numbers) == 2 else ""
