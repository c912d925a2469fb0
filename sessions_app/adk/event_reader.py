"""Reads ADK events from JSON, without the Python code that pydantic would call for each object.

Two thirds of the time of `Event.model_validate_json` are three functions of genai and ADK that serve callers in
Python, and return what JSON holds as it is, except for a few keys and nulls. `_build_lean_validator` makes a
validator from the schema of `Event` without these functions, which refuses these keys and nulls instead. What it
refuses is read by `Event` itself, so every event is as `Event` reads it.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any

from google.adk.events.event import Event
from pydantic import ValidationError
from pydantic_core import SchemaValidator

_KNOWN_SOURCES = frozenset(
    {
        # genai's `BaseModel._check_field_type_mismatches` logs models of a wrong class. JSON holds no models.
        "95c4d9d02f97b5c7",
        # ADK's `Event._accept_convenience_kwargs` moves keys that are no fields: `message`, `state`, …
        "ac6141f5418d8a64",
        # genai's `Part.__init__` takes a positional value, and drops some of the fields that are None.
        "84d39cbfcb223ecd",
    }
)
"""Digests of the source of the functions that are left out. A function that differs is not left out."""

_MUST_REFUSE = (
    '{"message": "moved to content"}',
    '{"content": {"parts": [{"text": null}]}}',
    '{"content": {"parts": [{"value": "moved to text"}]}}',
)
"""Events that only `Event` itself reads as it should."""


def read_event(text: str) -> Event:
    """Return the event of a JSON text, as `Event.model_validate_json` does.

    Raises:
        ValidationError: the text is no valid event.
    """
    if validator := _lean_validator():
        with suppress(Exception):  # `Event` itself decides how an event is refused
            event: Event = validator.validate_json(text)
            return event
    return Event.model_validate_json(text)


@functools.cache
def _lean_validator() -> SchemaValidator | None:
    """Return the validator of events without needless Python; None where pydantic, genai or ADK differ."""
    with suppress(Exception):  # internals may change in any way; `Event` itself remains
        return _build_lean_validator()
    return None


def _build_lean_validator() -> SchemaValidator | None:
    """Return the validator; None if it accepts what it must refuse.

    Without `_use_prebuilt=False`, pydantic would take the validators of the classes instead of those in the schema.
    """
    validator = SchemaValidator(_trim_schema(Event.__pydantic_core_schema__), _use_prebuilt=False)
    return None if any(_accepts_json(validator, text) for text in _MUST_REFUSE) else validator


def _accepts_json(validator: SchemaValidator, text: str) -> bool:
    with suppress(ValidationError):
        validator.validate_json(text)
        return True
    return False


def _trim_schema(node: Any) -> Any:
    """Return a copy of a core schema without known functions, in which their keys and nulls are refused."""
    if isinstance(node, list):
        return [_trim_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") == "function-before" and _is_known(_unbound_function(node["function"])):
        return _trim_schema(node["schema"])
    copy = {
        key: _trim_schema(value) if isinstance(value, dict | list) and key not in _NOT_VALIDATION else value
        for key, value in node.items()
    }
    if node.get("type") == "float":
        copy["allow_inf_nan"] = False  # a huge integer is no float for `Event`, but infinite in JSON
    if node.get("cls") is Event:
        copy["config"] = {**node["config"], "extra_fields_behavior": "forbid"}
    if node.get("custom_init") and _is_known(node["cls"].__init__):
        copy["custom_init"] = False
        for field in copy["schema"]["fields"].values():
            _refuse_null(field["schema"])
    return copy


_NOT_VALIDATION = frozenset({"metadata", "serialization", "default"})
"""Keys of a core schema whose values are no schemas of validation."""


def _refuse_null(with_default: dict[str, Any]) -> None:
    """Change the schema of an optional field so that it may be left out, but not be null."""
    if with_default["schema"]["type"] == "nullable":
        with_default["schema"] = with_default["schema"]["schema"]


def _unbound_function(schema: dict[str, Any]) -> Any:
    return getattr(schema["function"], "__func__", schema["function"])


@functools.cache
def _is_known(function: Callable[..., Any]) -> bool:
    """Return whether the source of a function is one of those that are left out."""
    return hashlib.sha256(_read_source(function).encode()).hexdigest()[:16] in _KNOWN_SOURCES


def _read_source(function: Any) -> str:
    """Return the lines of a function. `inspect.getsource` would keep all lines of the module in memory."""
    code = function.__code__
    last = max(line for *_, line in code.co_lines() if line)
    with open(code.co_filename, encoding="utf-8") as lines:
        return "".join(islice(lines, code.co_firstlineno - 1, last))
