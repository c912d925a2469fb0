"""JSON schemas of ADK's classes for forms: references inlined, descriptions shortened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema
from typing_extensions import override

from sessions_app.store.short_texts import truncate

MAX_DESCRIPTION, MAX_NESTED_DESCRIPTION = 300, 140
"""Most characters of a field's description, and of a nested field's."""

NULL = {"type": "null"}


class _LenientSchema(GenerateJsonSchema):
    """Schema generator that omits types without a JSON form, such as an HTTP client."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    @override
    def handle_invalid_for_json_schema(
        self, schema: core_schema.CoreSchema, error_info: str
    ) -> dict[str, Any]:
        return {}


def build_schema(
    model_class: type[BaseModel], depth: int, *, docstrings: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the JSON schema of a class with references inlined.

    Args:
        depth: levels of nested objects; deeper ones are objects without properties.
        docstrings: descriptions by field, for fields that have none.
    """
    schema = model_class.model_json_schema(schema_generator=_LenientSchema)
    for name, description in (docstrings or {}).items():
        if name in schema["properties"]:
            schema["properties"][name].setdefault("description", description)
    inlined: dict[str, Any] = _inline_references(schema, schema.get("$defs", {}), depth, MAX_DESCRIPTION)
    return inlined


def shorten_text(text: Any, max_length: int = MAX_DESCRIPTION) -> Any:
    """Return a description on one line, cut to a length; anything else as it is."""
    if not isinstance(text, str):
        return text
    return truncate(" ".join(text.split()), max_length)


def _inline_references(schema: Any, definitions: Mapping[str, Any], depth: int, max_length: int) -> Any:
    if isinstance(schema, list):
        return [_inline_references(item, definitions, depth, max_length) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        siblings = {key: value for key, value in schema.items() if key != "$ref"}
        if depth == 0:
            return {"type": "object", **siblings}
        referred = definitions.get(schema["$ref"].rpartition("/")[2], {})
        merged = {**referred, **siblings}
        return _inline_references(merged, definitions, depth - 1, MAX_NESTED_DESCRIPTION)
    options = schema.get("anyOf")
    if isinstance(options, list) and len(options) == 2 and NULL in options:  # it may be left out, as all may
        option = next(item for item in options if item != NULL)
        return _inline_references({**option, **schema, "anyOf": None}, definitions, depth, max_length)
    return {
        key: shorten_text(value, max_length)
        if key == "description"
        else _inline_references(value, definitions, depth, max_length)
        for key, value in schema.items()
        if key not in {"$defs", "title", "additionalProperties"} and value is not None
    }
