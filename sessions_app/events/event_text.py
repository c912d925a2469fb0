"""What an event is found by: its text and its traits, read off its stored forms. Pure.

Only public forms are read, so credentials are found by nobody.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sessions_app.models import EventKind, SessionTrait

VALUE_LENGTH = 200
"""Characters of a trait's value that are kept."""

COLUMNS = ("session_id", "seq", "event_id", "invocation_id", "kind", "author", "branch", "summary", "data")
"""Of an event, which it is found by."""

_TEXT_FIELDS = (
    "content",
    "output",
    "errorCode",
    "errorMessage",
    "inputTranscription",
    "outputTranscription",
    "customMetadata",
)
"""What of an event people wrote or read. Its state delta is found by terms about state."""

_SKIPPED_FIELDS = frozenset(
    {"data", "thoughtSignature", "thought_signature", "mimeType", "role", "id", "willContinue"}
)
"""Names of what in it is no text: bytes, and what only programs read."""

Trait = tuple[str, str]
"""Name and value."""


def text_of_data(data: str) -> str:
    """Return the text of an event by its `data`: messages, thoughts, arguments, results, code, errors."""
    wire = _parse_object(data)
    return "\n".join(_iter_texts(wire.get(name) for name in _TEXT_FIELDS))


def text_of_summary(summary: str) -> str:
    """Return the text of an event by its `summary`, which is bounded."""
    return "\n".join(_iter_texts([_parse_object(summary)]))


def traits_of(kind: str, author: str, branch: str, summary: str) -> list[Trait]:
    """Return what an event gives its session to be found by."""
    told = _parse_object(summary)
    name = SessionTrait.Name
    found = [(name.KIND, kind), (name.AUTHOR, author), (name.BRANCH, branch)]
    found += [(name.TOOL, item["name"]) for item in _calls_and_results(told)]
    errors = errors_of(told)
    found += [(name.KIND, str(EventKind.ERROR))] if errors else []
    found += [(name.ERROR, error) for error in errors]
    return list(dict.fromkeys((str(kind), truncate_value(value)) for kind, value in found if value))


def errors_of(told: Mapping[str, Any]) -> list[str]:
    """Return the errors that an event's summary tells of, its own and those of tools."""
    error = told.get("error") or {}
    own = " ".join(filter(None, (error.get("code"), error.get("message"))))
    failed = (f"{item['name']} {item['result']}" for item in told.get("results") or [] if item.get("failed"))
    return [text for text in (own, *failed) if text]


def truncate_value(value: str) -> str:
    """Return as much of a value as is kept."""
    return value[:VALUE_LENGTH]


def _parse_object(text: str) -> dict[str, Any]:
    """Read a stored form. One that something else has spoilt hides its event, not the others behind it."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _calls_and_results(told: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from told.get("calls") or []
    yield from told.get("results") or []


def _iter_texts(values: Any) -> Iterator[str]:
    """Yield the texts and numbers in JSON values, however deep."""
    waiting = list(values)[::-1]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if value:
                yield value
        elif isinstance(value, Mapping):
            waiting += [item for name, item in value.items() if name not in _SKIPPED_FIELDS][::-1]
        elif isinstance(value, list):
            waiting += value[::-1]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield str(value)
