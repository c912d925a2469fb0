"""Text and traits of an event for search, read from its stored columns. Pure.

Only public columns are read, so credentials cannot be found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sessions_app.store import scopes
from sessions_app.store.events.content import content_parts, read_a2a_data
from sessions_app.store.events.kinds import EventKind
from sessions_app.store.models import SessionTrait

VALUE_LENGTH = 200
"""Characters of a trait's value that are stored."""

COLUMNS = (
    "session_id",
    "seq",
    "event_id",
    "invocation_id",
    "kind",
    "author",
    "branch",
    "timestamp",
    "summary",
    "data",
)
"""Columns of an event that the index needs."""

_TEXT_FIELDS = (
    "content",
    "output",
    "errorCode",
    "errorMessage",
    "inputTranscription",
    "outputTranscription",
    "customMetadata",
)
"""Fields with an event's text. The state delta has search terms of its own."""

_SKIPPED_FIELDS = frozenset(
    {"data", "thoughtSignature", "thought_signature", "mimeType", "role", "id", "willContinue"}
)
"""Nested fields of ADK's own that are not text: bytes and technical values."""

_FREE_FIELDS = frozenset({"args", "response", "output", "customMetadata"})
"""Fields whose values agents choose: an `id` or `data` in them is text like any other."""

_MIME_TYPE_KEYS = frozenset({"mimeType", "mime_type"})
"""Keys of which one stands beside bytes in what tools return, such as images of MCP servers."""

_BYTES_KEYS = frozenset({"data", "blob"})

Trait = tuple[str, str]
"""Name and value."""


def data_text(data: str) -> str:
    """Return the text in an event's `data`: messages, thoughts, arguments, results, code, errors."""
    wire = parse_object(data)
    data_parts = (read_a2a_data(part) for part in content_parts(wire))
    values = (data.get("data", data) if isinstance(data, Mapping) else data for data in data_parts)
    fields = {name: wire.get(name) for name in _TEXT_FIELDS}
    return "\n".join(_iter_texts([fields, *values]))


def summary_text(summary: str) -> str:
    """Return the text in an event's `summary`, which is bounded."""
    return "\n".join(_iter_texts([parse_object(summary)]))


def event_traits(kind: str, author: str, branch: str, summary: str) -> list[Trait]:
    """Return the traits of an event."""
    summary_data = parse_object(summary)
    name = SessionTrait.Name
    traits = [(name.KIND, kind), (name.AUTHOR, author), (name.BRANCH, branch)]
    traits += [(name.TOOL, item["name"]) for item in _calls_and_results(summary_data)]
    errors = summary_errors(summary_data)
    traits += [(name.KIND, EventKind.ERROR.value)] if errors else []
    traits += [(name.ERROR, error) for error in errors]
    # Summaries are JSON, so their names may have characters that text columns cannot hold.
    return list(
        dict.fromkeys(
            (str(kind), truncate_value(scopes.clean_text(value))) for kind, value in traits if value
        )
    )


def summary_errors(summary_data: Mapping[str, Any]) -> list[str]:
    """Return the errors in an event's summary: its own and those of tools."""
    error = summary_data.get("error") or {}
    event_error = " ".join(filter(None, (error.get("code"), error.get("message"))))
    failed = (
        f"{item['name']} {item['result']}" for item in summary_data.get("results") or [] if item.get("failed")
    )
    return [text for text in (event_error, *failed) if text]


def truncate_value(value: str) -> str:
    """Truncate a value to its stored length."""
    return value[:VALUE_LENGTH]


def parse_object(text: str) -> dict[str, Any]:
    """Parse a JSON object. A damaged one counts as empty, so that it does not stop the indexing of other events."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _calls_and_results(summary_data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from summary_data.get("calls") or []
    yield from summary_data.get("results") or []


def _iter_texts(values: Any) -> Iterator[str]:
    """Yield all texts and numbers in values of ADK's fields, at any depth."""
    stack = [(value, False) for value in list(values)[::-1]]
    while stack:
        value, is_free = stack.pop()
        if isinstance(value, str):
            if value:
                yield value
        elif isinstance(value, Mapping):
            stack += [
                (item, is_free or name in _FREE_FIELDS)
                for name, item in value.items()
                if not _is_skipped(name, value, is_free)
            ][::-1]
        elif isinstance(value, list):
            stack += [(item, is_free) for item in value[::-1]]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield str(value)


def _is_skipped(name: str, fields: Mapping[str, Any], is_free: bool) -> bool:
    """Tell whether a field is no text. `is_free`: it lies in a value that an agent chose."""
    if not is_free:
        return name in _SKIPPED_FIELDS
    return name in _BYTES_KEYS and not _MIME_TYPE_KEYS.isdisjoint(fields)
