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

from devui.runtime._adk import StreamingMode
from devui.runtime.config import RuntimeOptions
from devui.runtime.json_schemas import build_schema, shorten_text

MAX_DEPTH = 4
"""Levels of nested objects in the schema; RunConfig has no more today."""


@cache
def schema() -> dict[str, Any]:
    """Return the JSON schema of this process's RunConfig with references inlined and fields described.

    ADK describes most fields by a docstring below them, which pydantic leaves out.
    """
    return build_schema(RunConfig, MAX_DEPTH, docstrings=_field_docstrings(RunConfig))


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
            descriptions[field.target.id] = shorten_text(paragraph)
    return descriptions
