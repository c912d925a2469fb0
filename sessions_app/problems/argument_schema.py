"""Validation of a tool call's arguments against the schema that the model got. Pure.

The schema is JSON Schema or the genai subset of OpenAPI (types in capitals, `nullable`). Only what is certain is
refused: missing required properties, other JSON types, values outside an enum, and properties that
`additionalProperties: false` excludes. Anything else (formats, ranges, unresolved references) counts as accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sessions_app.store.errors import BadInput
from sessions_app.store.short_texts import join_names

MAX_DEPTH = 8
MAX_ITEMS = 10_000
"""Items of an array that are checked."""

MAX_NAMES = 20
"""Parameters that an error lists."""

Schema = Mapping[str, Any]


def find_refusal(args: Any, schema: Schema, path: str = "", root: Schema | None = None) -> str:
    """Return why the schema refuses a value; empty if it accepts it, or if that is not certain."""
    root = schema if root is None else root
    schema = _resolve_reference(schema, root)
    if path.count(".") > MAX_DEPTH or (_allows_null(schema) and args is None):
        return ""
    alternatives = next((schema[name] for name in ("anyOf", "any_of", "oneOf") if schema.get(name)), None)
    if isinstance(alternatives, list):
        refusals = [
            find_refusal(args, alternative, path, root)
            for alternative in alternatives
            if isinstance(alternative, dict)
        ]
        return f"{_path_text(path)} matches none of its alternatives" if refusals and all(refusals) else ""
    types = _declared_types(schema)
    if types and not any(_has_type(args, alternative) for alternative in types):
        return f"{_path_text(path)} is {_json_type(args)}, not {' or '.join(types)}"
    choices = schema.get("enum")
    if isinstance(choices, list) and choices and args not in choices:
        return f"{_path_text(path)} is not one of {join_names([*map(str, choices)], 8)}"
    if isinstance(args, Mapping):
        return _object_refusal(args, schema, path, root)
    items = schema.get("items")
    if isinstance(args, list) and isinstance(items, dict):
        reasons = (
            find_refusal(item, items, f"{path}[{index}]", root) for index, item in enumerate(args[:MAX_ITEMS])
        )
        return next(filter(None, reasons), "")
    return ""


def require_accepted(tool_name: str, args: Mapping[str, Any], schema: Schema) -> None:
    """Require arguments that a tool's schema accepts.

    Raises:
        BadInput: names the argument, the rule and the tool's parameters.
    """
    refusal = _find_unknown_argument(args, schema) or find_refusal(args, schema)
    if refusal:
        properties = schema.get("properties")
        names = join_names([*properties], MAX_NAMES) if isinstance(properties, Mapping) else ""
        hint = f"Its parameters: {names}." if names else "It takes no arguments."
        raise BadInput(f"Arguments of {tool_name}: {refusal}.", hint=hint)


def _find_unknown_argument(args: Mapping[str, Any], schema: Schema) -> str:
    """Return why an argument is refused: it is no parameter, and ADK would drop it. Empty if all are parameters."""
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping) or schema.get("additionalProperties"):
        return ""
    if not properties and schema.keys() - {
        "type",
        "properties",
        "title",
        "description",
        "additionalProperties",
    }:
        return ""  # a reference or a union, whose properties are inside
    unknown = next((name for name in args if name not in properties), None)
    return "" if unknown is None else f"{unknown} is not a parameter"


def _object_refusal(args: Mapping[str, Any], schema: Schema, path: str, root: Schema) -> str:
    required = schema.get("required")
    missing = [name for name in required if name not in args] if isinstance(required, list) else []
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    extra = [name for name in args if name not in properties]
    undeclared = f"{_join_names(path, extra)} {'are not parameters' if extra[1:] else 'is not a parameter'}"
    if missing:
        refusal = f"{_join_names(path, missing)} {'are' if missing[1:] else 'is'} missing"
        return f"{refusal}; {undeclared}" if extra and properties else refusal
    if extra and schema.get("additionalProperties") is False:
        return undeclared
    reasons = (
        find_refusal(args[name], property_schema, f"{path}.{name}".lstrip("."), root)
        for name, property_schema in properties.items()
        if name in args and isinstance(property_schema, dict)
    )
    return next(filter(None, reasons), "")


def _join_names(path: str, names: Sequence[str]) -> str:
    """Return the paths of properties for a sentence."""
    *first_names, last = [f"{path}.{name}".lstrip(".") for name in names] or [""]
    return f"{', '.join(first_names)} and {last}" if first_names else last


def _resolve_reference(schema: Schema, root: Schema) -> Schema:
    """Return the schema that a reference names; an empty one, which accepts everything, if it cannot be resolved."""
    for _ in range(MAX_DEPTH):
        reference = schema.get("$ref") or schema.get("ref")
        if not isinstance(reference, str):
            return schema
        target: Any = root
        for step in reference.removeprefix("#/").split("/"):
            target = target.get(step) if isinstance(target, Mapping) else None
        schema = target if isinstance(target, Mapping) else {}
    return {}


def _declared_types(schema: Schema) -> Sequence[str]:
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared] if isinstance(declared, str) else []
    return [name.lower() for name in names if isinstance(name, str) and name.lower() in _CHECKS]


def _allows_null(schema: Schema) -> bool:
    return schema.get("nullable") is True or "null" in _declared_types(schema)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": _is_number,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, Mapping),
    "null": lambda value: value is None,
}


def _has_type(value: Any, name: str) -> bool:
    return _CHECKS[name](value)


def _json_type(value: Any) -> str:
    return next((name for name in ("null", "boolean", *_CHECKS) if _has_type(value, name)), "a value")


def _path_text(path: str) -> str:
    return path or "the value"
