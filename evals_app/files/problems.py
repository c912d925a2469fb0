"""Conversion of pydantic's errors to problems of evalset files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic_core import ErrorDetails

from evals_app.files.schema import UNION_TAGS
from evals_app.files.spelling import to_snake_case
from evals_app.files.syntax_tree import PathKey, PositionFinder
from sessions_app.file_problems import FileProblem, describe_error, format_path


def from_pydantic(
    file: str, text: str, document: Any, errors: Iterable[ErrorDetails], kind: str = "json"
) -> list[FileProblem]:
    """Convert pydantic's errors to problems with positions in the file's text of `kind` json or yaml."""
    details = list(errors)
    if details and details[0]["type"] == "json_invalid":
        return [_unreadable_problem(file, kind, str(details[0]["msg"]))]
    finder, no_finder = PositionFinder(text, kind), PositionFinder("", kind)
    return [
        _field_problem(file, finder if index < MAX_LOCATED else no_finder, document, error)
        for index, error in enumerate(details)
    ]


MAX_LOCATED = 100
"""Problems of a file that get a line and a column, each of which is searched for from the start of the text."""

_JSON_FAULT = re.compile(
    r"Invalid JSON: (?P<what>.*) at line (?P<line>\d+) column (?P<column>\d+)", re.DOTALL
)


def _unreadable_problem(file: str, kind: str, message: str) -> FileProblem:
    """Return the problem of a document that only pydantic's stricter parser rejects. YAML has no position."""
    fault = _JSON_FAULT.fullmatch(message)
    what = fault["what"] if fault else message
    if "hex escape" in what or "surrogate" in what:
        what = "an escape stands for half of a character, which is no text: write the whole character"
    elif "recursion" in what:
        what = "its values are nested too deeply"
    line, column = (int(fault["line"]), int(fault["column"])) if fault and kind == "json" else (0, 0)
    return FileProblem(file, f"cannot be read: {what}", line=line, column=column)


def _field_problem(file: str, finder: PositionFinder, document: Any, error: ErrorDetails) -> FileProblem:
    path, missing = _path_in(document, error["loc"])
    position = finder.of(path)
    case, within = _find_case(document, path)
    return FileProblem(
        file=file,
        what=describe_error(error)
        if error["type"] != "missing" or missing
        else _spelling_message(error["loc"]),
        case=case,
        field=format_path([*within, missing] if missing else within),
        line=position.line if position else 0,
        column=position.column if position else 0,
    )


def _spelling_message(loc: Sequence[PathKey]) -> str:
    return f"must be spelled {to_snake_case(str(loc[-1]))}: ADK reads this name in no other spelling"


def _path_in(document: Any, loc: Sequence[PathKey]) -> tuple[list[PathKey], str]:
    """Return the path in the document's spelling, and its last name if the document lacks it."""
    path: list[PathKey] = []
    missing = ""
    for key in loc:
        if key in UNION_TAGS:
            continue
        if isinstance(document, dict):
            # the exact name first: a file may have thousands of problems
            name = key if key in document else _find_other_spelling(document, str(key))
            if name is None:
                missing = to_snake_case(str(key))
                break
            document, key = document[name], name
        elif isinstance(document, list | tuple) and isinstance(key, int) and key < len(document):
            document = document[key]
        else:
            break
        path.append(key)
    return path, missing


def _find_other_spelling(document: dict[Any, Any], field: str) -> Any:
    """Return the name in a document that is the field in another spelling, or None."""
    spelling = to_snake_case(field)
    return next((name for name in document if to_snake_case(str(name)) == spelling), None)


def _find_case(document: Any, path: list[PathKey]) -> tuple[str, list[PathKey]]:
    """Return the id of the case in a path and the path inside it; ("", path) outside of cases."""
    inside = path
    if isinstance(document, dict) and path[:1] == ["eval_cases"]:
        document, inside = document["eval_cases"], path[1:]
    if not (isinstance(document, list) and inside and isinstance(inside[0], int)):
        return "", path
    case = document[inside[0]]
    names = ("eval_id", "evalId", "name")
    name = next((case[name] for name in names if isinstance(case, dict) and case.get(name)), "")
    return (str(name), inside[1:]) if name else ("", path)
