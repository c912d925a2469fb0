"""Form of the fixtures of a case: a row for each result or error with which a tool answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from evals_app.cases.form_fields import (
    Nested,
    field_text,
    field_word,
    form_rows,
    json_text,
    read_object,
    set_field,
)
from evals_app.files.fixtures import MATCH_ARGS, TIMES, SourcedToolFixtures

Json = dict[str, Any]

FIXTURE_COLUMNS = ("origin", "tool", "args", "matchers", "result", "error", "code", "seconds", "times")
"""Fields of a row. Its origin is the position of its tool and of the injection among the fixtures of the case."""

OBJECTS = {"args": "match_args", "matchers": MATCH_ARGS, "result": "injected_response"}
NUMBERS = {"seconds": ("injected_latency_seconds", float), "times": (TIMES, int)}
"""Fields of an injection by columns."""

DEFAULT_CODE = 500
"""HTTP status of an error for which none is written."""


def fixture_rows(fixtures: Sequence[Json]) -> list[Nested]:
    """Return the form data of the fixtures of a case."""
    return [
        _fixture_row(f"{tool_index}-{index}", str(tool_fixtures.get("tool_name") or ""), injection)
        for tool_index, tool_fixtures in enumerate(fixtures)
        for index, injection in enumerate(tool_fixtures.get("injection_configs") or [])
    ]


def _fixture_row(origin: str, tool: str, injection: Json) -> Nested:
    error = injection.get("injected_error") or {}
    return {
        "origin": origin,
        "tool": tool,
        **{column: json_text(injection.get(name)) for column, name in OBJECTS.items()},
        "error": error.get("error_message") or "",
        "code": _number_text(error.get("injected_http_error_code")),
        **{column: _number_text(injection.get(name)) for column, (name, _) in NUMBERS.items()},
    }


def _number_text(value: Any) -> str:
    return "" if value is None else json.dumps(value)


def read_fixtures(data: Nested, base: Sequence[Json], errors: dict[str, str]) -> list[Json]:
    """Return the fixtures in form data, those of a tool in the order of the form; note errors by field.

    What the form does not show, such as probabilities and mocks by a model, stays as in the fixtures on which it was
    opened.
    """
    injections: dict[str, list[Json]] = {}
    for index, row in enumerate(form_rows(data, "fixtures")):
        path = f"fixtures.{index}"
        tool, old = _find_origin(row, base)
        name = field_word(row, "tool", tool)
        if not name:
            errors[f"{path}.tool"] = "Which tool is answered for?"
        injections.setdefault(name, []).append(_read_injection(row, old, path, errors))
    return _group_injections(injections, {str(before.get("tool_name")): before for before in base})


def _group_injections(injections: Mapping[str, list[Json]], before: Mapping[str, Json]) -> list[Json]:
    """Return an object for each tool that has injections or is mocked by a model."""
    grouped = []
    for tool in dict.fromkeys([*before, *injections]):
        tool_fixtures = {"tool_name": tool, **before.get(tool, {})}
        if tool in injections or tool_fixtures.get("injection_configs"):
            tool_fixtures["injection_configs"] = injections.get(tool, [])
        if tool in injections or SourcedToolFixtures("", tool_fixtures).is_mocked:
            grouped.append(tool_fixtures)
    return grouped


def _find_origin(row: Nested, base: Sequence[Json]) -> tuple[str, Json]:
    """Return the tool and the injection on which a row was opened; empty for a new row."""
    numbers = [
        int(part) for part in field_text(row, "origin").split("-") if part.isdecimal() and len(part) < 8
    ]
    if len(numbers) == 2 and numbers[0] < len(base):
        injections = base[numbers[0]].get("injection_configs") or []
        if numbers[1] < len(injections):
            return str(base[numbers[0]].get("tool_name") or ""), injections[numbers[1]]
    return "", {}


def _read_injection(row: Nested, old: Json, path: str, errors: dict[str, str]) -> Json:
    injection = dict(old)
    for column, name in OBJECTS.items():
        value = read_object(row, column, f"{path}.{column}", errors)
        set_field(injection, name, value or (old.get(name) if not old.get(name) else None))
    for column, (name, kind) in NUMBERS.items():
        number = _read_number(row, column, path, errors, kind)
        set_field(
            injection,
            name,
            old.get(name) if _number_text(old.get(name)) == field_word(row, column) else number,
        )
    set_field(injection, "injected_error", _read_error(row, old.get("injected_error") or {}, path, errors))
    is_readable = not any(name.startswith(f"{path}.") for name in errors)
    if is_readable and bool(injection.get("injected_error")) == bool(injection.get("injected_response")):
        errors[f"{path}.result"] = "Write either a result, an object that is not empty, or an error."
    return injection


def _read_error(row: Nested, old: Mapping[str, Any], path: str, errors: dict[str, str]) -> Json | None:
    message = field_text(row, "error", old.get("error_message"))
    if not message.strip() and not field_word(row, "code"):
        return None
    code = _read_number(row, "code", path, errors, int)
    return {
        **old,
        "injected_http_error_code": DEFAULT_CODE if code is None else code,
        "error_message": message,
    }


def _read_number(
    row: Nested, column: str, path: str, errors: dict[str, str], kind: type[int] | type[float]
) -> int | float | None:
    text = field_word(row, column)
    try:
        return kind(text) if text else None
    except ValueError:
        words = "a whole number" if kind is int else "a number"
        errors[f"{path}.{column}"] = f"{text[:20]!r} is not {words}."
        return None
