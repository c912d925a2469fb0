"""Field names of edited cases in the spelling of their file, snake case or camel case. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic.alias_generators import to_camel

from evals_app.files.content import FINAL_STATE, TURN_STATES
from evals_app.files.fixtures import FIXTURES
from evals_app.files.pairing import is_same_json, pair_items

Json = dict[str, Any]

FREE_NAME_FIELDS = frozenset(
    {
        "args",
        "response",
        "state",
        FINAL_STATE,
        TURN_STATES,
        FIXTURES,
        "part_metadata",
        "grounding_metadata",
        "usage_metadata",
        "tool_declarations",
        "user_persona",
    }
)
"""Fields whose inner names are the agent's, or ADK's in a single spelling."""


def keep_spelling(raw: Any, before: Any, after: Any) -> Any:
    """Return `after` in the spelling of a file that has `before` as `raw`.

    Unchanged values and field names stay; new fields get the spelling of the others.
    """
    return _merge_value(raw, before, after, _uses_camel_case(raw))


def to_snake_case(name: str) -> str:
    """Return a field's name in snake case."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def _merge_value(raw: Any, before: Any, after: Any, camel: bool) -> Any:
    if is_same_json(before, after):
        return raw
    if isinstance(raw, dict) and isinstance(before, dict) and isinstance(after, dict):
        return _merge_fields(raw, before, after, camel)
    if (
        isinstance(raw, list)
        and isinstance(before, list)
        and isinstance(after, list)
        and len(raw) == len(before)
    ):
        return [
            spell_fields(item, camel)
            if index is None
            else _merge_value(raw[index], before[index], item, camel)
            for index, item in zip(pair_items(before, after), after, strict=True)
        ]
    return spell_fields(after, camel)


def _merge_fields(raw: Json, before: Json, after: Json, camel: bool) -> Json:
    merged: Json = {}
    names: set[str] = set()
    for name, value in raw.items():
        snake_name = name if name in before else to_snake_case(name)
        if snake_name not in before:  # a field unknown to the model stays
            merged[name] = value
        elif snake_name in after:
            inner = camel and snake_name not in FREE_NAME_FIELDS
            merged[name] = _merge_value(value, before[snake_name], after[snake_name], inner)
        names.add(snake_name)
    for name, value in after.items():
        if name not in names:
            merged[to_camel(name) if camel else name] = (
                value if name in FREE_NAME_FIELDS else spell_fields(value, camel)
            )
    return merged


def spell_fields(value: Any, camel: bool) -> Any:
    """Return a new value with its fields in camel case or snake case."""
    if not camel:
        return value
    if isinstance(value, dict):
        return {
            to_camel(name): inner if name in FREE_NAME_FIELDS else spell_fields(inner, camel)
            for name, inner in value.items()
        }
    return [spell_fields(item, camel) for item in value] if isinstance(value, list) else value


def _uses_camel_case(raw: Any) -> bool:
    """Tell by the first field of two words whether a case is in camel case."""
    if isinstance(raw, Mapping):
        for name, value in raw.items():
            if name != to_snake_case(name):
                return True
            if "_" in name:
                return False
            if isinstance(value, list | dict) and _uses_camel_case(value):
                return True
    return any(_uses_camel_case(item) for item in raw[:1]) if isinstance(raw, list) else False
