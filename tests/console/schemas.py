"""JSON schemas that an agent describes: of its RunConfig and of its input."""

from __future__ import annotations

RUN_CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "max_llm_calls": {"type": "integer"},
        "support_cfc": {"type": "boolean", "default": False, "deprecated": True},
        "speech_config": {"type": "object", "properties": {"languageCode": {}}},
    },
}


TRIP_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
