"""A changed case in the words of its file: either of ADK's spellings, and what DevUI does not know. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic.alias_generators import to_camel

from evals_app.files.content import FINAL_STATE, TURN_STATES
from evals_app.files.pairing import paired, same

Json = dict[str, Any]

ANY_NAMES = frozenset(
    {
        "args",
        "response",
        "state",
        FINAL_STATE,
        TURN_STATES,
        "part_metadata",
        "grounding_metadata",
        "usage_metadata",
        "tool_declarations",
        "user_persona",
    }
)
"""Fields inside which names are the agent's, or ADK's in one spelling."""


def in_words_of(raw: Any, before: Any, after: Any) -> Any:
    """Return `after` in the words of a file in which `before` is written as `raw`.

    What did not change stays as it is written, a field keeps its spelling, a new one has that of the others.
    """
    return _respelt(raw, before, after, _is_camel(raw))


def snake(name: str) -> str:
    """Return a field's name in snake case."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def _respelt(raw: Any, before: Any, after: Any, camel: bool) -> Any:
    if same(before, after):
        return raw
    if isinstance(raw, dict) and isinstance(before, dict) and isinstance(after, dict):
        return _fields(raw, before, after, camel)
    if (
        isinstance(raw, list)
        and isinstance(before, list)
        and isinstance(after, list)
        and len(raw) == len(before)
    ):
        return [
            spelt(item, camel) if place is None else _respelt(raw[place], before[place], item, camel)
            for place, item in zip(paired(before, after), after, strict=True)
        ]
    return spelt(after, camel)


def _fields(raw: Json, before: Json, after: Json, camel: bool) -> Json:
    found: Json = {}
    written: set[str] = set()
    for name, value in raw.items():
        known = name if name in before else snake(name)
        if known not in before:  # what the reading left out stays
            found[name] = value
        elif known in after:
            inner = camel and known not in ANY_NAMES
            found[name] = _respelt(value, before[known], after[known], inner)
        written.add(known)
    for name, value in after.items():
        if name not in written:
            found[to_camel(name) if camel else name] = value if name in ANY_NAMES else spelt(value, camel)
    return found


def spelt(value: Any, camel: bool) -> Any:
    """Return a value that is new to its file, its fields in camel or in snake case."""
    if not camel:
        return value
    if isinstance(value, dict):
        return {
            to_camel(name): inner if name in ANY_NAMES else spelt(inner, camel)
            for name, inner in value.items()
        }
    return [spelt(item, camel) for item in value] if isinstance(value, list) else value


def _is_camel(raw: Any) -> bool:
    """Tell whether a case is written in camel case: its first field of two words says it."""
    if isinstance(raw, Mapping):
        for name, value in raw.items():
            if name != snake(name):
                return True
            if "_" in name:
                return False
            if isinstance(value, list | dict) and _is_camel(value):
                return True
    return any(_is_camel(item) for item in raw[:1]) if isinstance(raw, list) else False
