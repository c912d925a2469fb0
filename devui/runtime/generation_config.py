"""ADK's generation config: the JSON schema of the fields that a person can change."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.genai.types import GenerateContentConfig

from devui.runtime.json_schemas import build_schema

MAX_DEPTH = 2
"""Levels of nested objects in the schema. The schema of a response nests itself, which makes deeper ones large."""

FIELDS_LEFT_OUT = frozenset(
    ("http_options", "labels", "should_return_http_response", "system_instruction", "tools")
)
"""Fields that have an input of their own, or that ADK sets."""

FREE_FIELDS = frozenset(("response_schema", "response_json_schema"))
"""Fields that take any JSON object."""


@cache
def schema() -> dict[str, Any]:
    """Return the JSON schema of this process's `GenerateContentConfig` by the names of its fields."""
    properties = build_schema(GenerateContentConfig, MAX_DEPTH)["properties"]
    names = {name: field.alias or name for name, field in GenerateContentConfig.model_fields.items()}
    fields = {name: properties[alias] for name, alias in names.items() if name not in FIELDS_LEFT_OUT}
    for name in FREE_FIELDS & fields.keys():
        fields[name] = {"type": "object", "description": fields[name].get("description", "")}
    return {"type": "object", "properties": fields}
