"""ADK's RunConfig: the schema a form is made of, what a run asks for, and what is wrong with it."""

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

DEPTH = 4
"""Objects in objects that the schema tells of: all that RunConfig has today."""

LONGEST, LONGEST_WITHIN = 300, 140
"""Characters of a field's description, and of one in an object."""


NULL = {"type": "null"}


class _Tolerant(GenerateJsonSchema):
    """A generator that says nothing of what has no JSON, such as an HTTP client."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    @override
    def handle_invalid_for_json_schema(
        self, schema: core_schema.CoreSchema, error_info: str
    ) -> dict[str, Any]:
        return {}


@cache
def schema() -> dict[str, Any]:
    """Return the JSON schema of this process's RunConfig without references, its fields described.

    ADK describes most fields by a docstring below them, which pydantic leaves out.
    """
    whole = RunConfig.model_json_schema(schema_generator=_Tolerant)
    found: dict[str, Any] = _inlined(whole, whole.get("$defs", {}), DEPTH)
    for name, words in _docstrings(RunConfig).items():
        if name in found["properties"] and "description" not in whole["properties"][name]:
            found["properties"][name]["description"] = words
    return found


def run_config(request: Mapping[str, Any], options: RuntimeOptions) -> RunConfig:
    """Return ADK's RunConfig of what the console asked for.

    Raises:
        ValidationError: a field of `run_config` does not exist or cannot have this value.
    """
    defaults = {} if options.max_llm_calls is None else {"max_llm_calls": options.max_llm_calls}
    mode = StreamingMode.SSE if request.get("streaming") else StreamingMode.NONE
    given = {**defaults, "streaming_mode": mode, **(request.get("run_config") or {})}
    if request.get("custom_metadata"):
        given["custom_metadata"] = request["custom_metadata"]
    return RunConfig.model_validate(given)


def problems(request: Mapping[str, Any], options: RuntimeOptions) -> dict[str, str]:
    """Return what ADK finds wrong with what a run asks for, by fields; an empty name: with all of it."""
    try:
        run_config(request, options)
    except ValidationError as error:
        found: dict[str, str] = {}
        for fault in error.errors(include_url=False, include_context=False, include_input=False):
            name, *inner = map(str, fault["loc"] or ("",))
            where = f"{'.'.join(inner)}: " if inner else ""
            found.setdefault(name, f"{where}{fault['msg']}")
        return found
    return {}


def _inlined(found: Any, definitions: Mapping[str, Any], depth: int) -> Any:
    if isinstance(found, list):
        return [_inlined(each, definitions, depth) for each in found]
    if not isinstance(found, dict):
        return found
    longest = LONGEST if depth == DEPTH else LONGEST_WITHIN
    if "$ref" in found:
        beside = {key: value for key, value in found.items() if key != "$ref"}
        if depth == 0:
            return {"type": "object", **beside}
        referred = definitions.get(found["$ref"].rpartition("/")[2], {})
        return _inlined({**referred, **beside}, definitions, depth - 1)
    options = found.get("anyOf")
    if isinstance(options, list) and len(options) == 2 and NULL in options:  # it may be left out, as all may
        only = next(each for each in options if each != NULL)
        return _inlined({**only, **found, "anyOf": None}, definitions, depth)
    return {
        key: _shortened(value, longest) if key == "description" else _inlined(value, definitions, depth)
        for key, value in found.items()
        if key not in {"$defs", "title", "additionalProperties"} and value is not None
    }


def _docstrings(owner: type) -> dict[str, str]:
    """Return the first paragraphs of the docstrings below a class's fields; none when there is no source."""
    try:
        [body] = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[str, str] = {}
    statements = body.body if isinstance(body, ast.ClassDef) else []
    for field, below in pairwise(statements):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            paragraph = inspect.cleandoc(str(below.value.value)).partition("\n\n")[0]
            found[field.target.id] = _shortened(paragraph)
    return found


def _shortened(text: Any, longest: int = LONGEST) -> Any:
    if not isinstance(text, str):
        return text
    words = " ".join(text.split())
    return words if len(words) <= longest else words[: longest - 1] + "…"
