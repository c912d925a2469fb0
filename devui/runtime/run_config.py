"""ADK's RunConfig: the JSON schema for its form, values of a run, and their validation."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from google.adk.agents.run_config import RunConfig
from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema
from typing_extensions import override

from devui.runtime._adk import StreamingMode
from devui.runtime.config import RuntimeOptions
from sessions_app.store.short_texts import truncate

MAX_DEPTH = 4
"""Levels of nested objects in the schema; RunConfig has no more today."""

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


@cache
def schema() -> dict[str, Any]:
    """Return the JSON schema of this process's RunConfig with references inlined and fields described.

    ADK describes most fields by a docstring below them, which pydantic leaves out.
    """
    config_schema = RunConfig.model_json_schema(schema_generator=_LenientSchema)
    schema_json: dict[str, Any] = _inline_references(config_schema, config_schema.get("$defs", {}), MAX_DEPTH)
    for name, description in _field_docstrings(RunConfig).items():
        if name in schema_json["properties"] and "description" not in config_schema["properties"][name]:
            schema_json["properties"][name]["description"] = description
    return schema_json


def build_run_config(request: Mapping[str, Any], options: RuntimeOptions) -> RunConfig:
    """Return ADK's RunConfig for the options of a run.

    Raises:
        ValidationError: a field of `run_config` does not exist or cannot have this value.
    """
    defaults = {} if options.max_llm_calls is None else {"max_llm_calls": options.max_llm_calls}
    mode = StreamingMode.SSE if request.get("streaming") else StreamingMode.NONE
    values = {**defaults, "streaming_mode": mode, **(request.get("run_config") or {})}
    if request.get("custom_metadata"):
        values["custom_metadata"] = request["custom_metadata"]
    return RunConfig.model_validate(values)


def find_problems(request: Mapping[str, Any], options: RuntimeOptions) -> dict[str, str]:
    """Return ADK's validation errors for the options of a run by field; an empty name stands for the whole."""
    try:
        build_run_config(request, options)
    except ValidationError as error:
        problems: dict[str, str] = {}
        for fault in error.errors(include_url=False, include_context=False, include_input=False):
            name, *inner = map(str, fault["loc"] or ("",))
            where = f"{'.'.join(inner)}: " if inner else ""
            problems.setdefault(name, f"{where}{fault['msg']}")
        return problems
    return {}


def _inline_references(schema: Any, definitions: Mapping[str, Any], depth: int) -> Any:
    if isinstance(schema, list):
        return [_inline_references(item, definitions, depth) for item in schema]
    if not isinstance(schema, dict):
        return schema
    longest = MAX_DESCRIPTION if depth == MAX_DEPTH else MAX_NESTED_DESCRIPTION
    if "$ref" in schema:
        siblings = {key: value for key, value in schema.items() if key != "$ref"}
        if depth == 0:
            return {"type": "object", **siblings}
        referred = definitions.get(schema["$ref"].rpartition("/")[2], {})
        return _inline_references({**referred, **siblings}, definitions, depth - 1)
    options = schema.get("anyOf")
    if isinstance(options, list) and len(options) == 2 and NULL in options:  # it may be left out, as all may
        only = next(item for item in options if item != NULL)
        return _inline_references({**only, **schema, "anyOf": None}, definitions, depth)
    return {
        key: _shorten_text(value, longest)
        if key == "description"
        else _inline_references(value, definitions, depth)
        for key, value in schema.items()
        if key not in {"$defs", "title", "additionalProperties"} and value is not None
    }


def _field_docstrings(owner: type) -> dict[str, str]:
    """Return the first paragraphs of the docstrings below a class's fields; empty without source."""
    try:
        [body] = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    except (OSError, SyntaxError, ValueError):
        return {}
    descriptions: dict[str, str] = {}
    statements = body.body if isinstance(body, ast.ClassDef) else []
    for field, below in pairwise(statements):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            paragraph = inspect.cleandoc(str(below.value.value)).partition("\n\n")[0]
            descriptions[field.target.id] = _shorten_text(paragraph)
    return descriptions


def _shorten_text(text: Any, longest: int = MAX_DESCRIPTION) -> Any:
    if not isinstance(text, str):
        return text
    return truncate(" ".join(text.split()), longest)
