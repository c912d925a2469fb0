"""Parser of evalset files in JSON or YAML, in the present form or an older one."""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from evals_app.files import legacy, plain_yaml, schema
from evals_app.files.content import TURN_STATES
from evals_app.files.fixtures import FIXTURES, ToolFixtures
from evals_app.files.problems import from_pydantic
from sessions_app.file_problems import BadFile, FileProblem
from sessions_app.store import text_input
from sessions_app.store.database.gc_tuning import pause_collector
from sessions_app.store.errors import NotFound
from sessions_app.store.short_texts import join_names

YAML_SUFFIXES = (".yaml", ".yml")

MAX_WARNINGS = 20
"""Most duplicate keys, and most invalid numbers, that warnings name."""


@dataclass(frozen=True)
class EvalSetContent:
    """Content of an evalset file.

    Attributes:
        eval_set_id: the id in the file; "" in the older forms, which have none.
        cases: in the present form.
        format: json or yaml.
        form: evalset, legacy (a list of cases) or flat (a list of turns of one case).
        warnings: likely mistakes that ADK accepts.
        fixtures: those of the evalset, which its cases share.
    """

    eval_set_id: str
    name: str
    description: str
    cases: list[schema.EvalCase]
    format: str
    form: str
    warnings: list[str] = field(default_factory=list)
    fixtures: list[ToolFixtures] = field(default_factory=list)

    def as_adk(self) -> dict[str, Any]:
        """Return the evalset in ADK's present form, snake case, without unset fields."""
        fixtures = [
            tool_fixtures.model_dump(mode="json", exclude_unset=True) for tool_fixtures in self.fixtures
        ]
        return {
            "eval_set_id": self.eval_set_id,
            "name": self.name or None,
            "description": self.description or None,
            **({FIXTURES: fixtures} if fixtures else {}),
            "eval_cases": [case.model_dump(mode="json", exclude_unset=True) for case in self.cases],
        }


def read_file(path: Path, shown_as: str = "") -> EvalSetContent:
    """Read an evalset file. Errors name it `shown_as`.

    Raises:
        NotFound: the file does not exist.
        BadFile: it cannot be read, is no JSON or YAML, or no evalset.
    """
    return parse(read_text(path, shown_as), path.name, shown_as or str(path))


def read_text(path: Path, shown_as: str = "") -> str:
    """Return a file's text.

    Raises:
        NotFound: the file does not exist.
        BadFile: it cannot be read, or is no text.
    """
    name = shown_as or str(path)
    try:
        content = text_input.read_file(path)
    except FileNotFoundError as error:
        if path.is_symlink():
            target = os.readlink(path)
            raise BadFile([FileProblem(name, f"is a link to {target!r}, where there is no file")]) from error
        raise NotFound(f"{name}: there is no such file.", hint="Check the path.") from None
    except OSError as error:
        raise BadFile([FileProblem(name, f"cannot be read: {error.strerror}")]) from error
    return decode_content(name, content)


def decode_content(name: str, content: bytes) -> str:
    """Return a file's text, without newline conversion: the file may be written back.

    Raises:
        BadFile: it is no text.
    """
    try:
        return text_input.decode_text(content)
    except UnicodeDecodeError as error:
        raise BadFile(
            [FileProblem(name, f"is not UTF-8 text (byte {error.start}): save it as UTF-8")]
        ) from error


@dataclass(frozen=True)
class EvalsetFile:
    """Text and content of an evalset file.

    Attributes:
        file_name: decides between JSON and YAML.
        shown_as: name of the file in errors.
        document: the JSON values of the text.
    """

    text: str
    file_name: str
    shown_as: str
    document: Any
    content: EvalSetContent


def parse(text: str, file_name: str, shown_as: str) -> EvalSetContent:
    """Parse an evalset. The file's name decides between JSON and YAML.

    Raises:
        BadFile: with file, line, case and field of each problem.
    """
    return parse_file(text, file_name, shown_as).content


@pause_collector()
def parse_file(text: str, file_name: str, shown_as: str) -> EvalsetFile:
    """Parse an evalset file's text.

    Raises:
        BadFile: with file, line, case and field of each problem.
    """
    return parse_document(load_document(text, file_name, shown_as), file_name)


@pause_collector()
def parse_document(loaded: LoadedDocument, file_name: str) -> EvalsetFile:
    """Validate a loaded document as an evalset. `file_name` is the file's name in the agent's folder.

    Raises:
        BadFile: with file, line, case and field of each problem.
    """
    try:
        content = _read_content(loaded, Path(file_name).name.split(".")[0])
    except ValidationError as error:
        raise BadFile(loaded.problems(error)) from error
    if content is None:
        what = f"must be an evalset (an object with eval_set_id and eval_cases), not {_describe_kind(loaded.document)}"
        raise BadFile([FileProblem(loaded.shown_as, what, line=1, column=1)])
    content.warnings.extend(_iter_warnings(content))
    content.warnings.extend(loaded.warnings)
    return EvalsetFile(loaded.text, file_name, loaded.shown_as, loaded.document, content)


def parse_case(text: str) -> schema.EvalCase:
    """Parse a single case from JSON.

    Raises:
        BadFile: with line, column and field of each problem; the file is called `case`.
    """
    loaded = load_document(text, "case.json", "case")
    try:
        return schema.EvalCase.model_validate_json(loaded.as_json)
    except ValidationError as error:
        raise BadFile(loaded.problems(error)) from error


def _non_json_numbers(value: Any, *path: str | int) -> Iterator[ErrorDetails]:
    """Yield an error for every NaN and infinity in a document."""
    if isinstance(value, float) and not math.isfinite(value):
        yield ErrorDetails(type="finite", loc=path, msg="must be a number that JSON has", input=value)
    for key, entry in _iter_entries(value):
        yield from _non_json_numbers(entry, *path, key)


def _iter_entries(value: Any) -> Iterable[tuple[str | int, Any]]:
    return value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()


_NON_JSON_NUMBER = re.compile(r"\b(?:NaN|Infinity)\b|\.(?i:nan|inf)\b|\d[eE]\+?\d{3}")
"""Matches texts that may have NaN or infinities, such as 1e999."""


@dataclass(frozen=True)
class LoadedDocument:
    """Parsed JSON or YAML text.

    Attributes:
        as_json: the document as JSON text.
        kind: json or yaml.
        duplicate_keys: keys that an object contains twice; parsers use the last value.
    """

    text: str
    shown_as: str
    document: Any
    as_json: str
    kind: str
    duplicate_keys: Sequence[str]

    def problems(self, error: ValidationError) -> list[FileProblem]:
        """Convert pydantic's errors to problems with positions in the text."""
        return from_pydantic(self.shown_as, self.text, self.document, error.errors(), self.kind)

    @property
    def warnings(self) -> list[str]:
        """Warnings about duplicate keys and about numbers that are not valid JSON."""
        names = [*dict.fromkeys(map(repr, self.duplicate_keys))]
        listed = join_names(names, MAX_WARNINGS)
        messages = [f"An object contains a key twice, and the last one counts: {listed}."] if names else []
        if _NON_JSON_NUMBER.search(self.text):
            numbers = _non_json_numbers(self.document)
            problems = from_pydantic(self.shown_as, self.text, self.document, numbers, self.kind)
            messages += [
                f"Line {problem.line}, column {problem.column}: {problem.subject} {problem.what}."
                for problem in problems[:MAX_WARNINGS]
            ]
            more = len(problems) - MAX_WARNINGS
            messages += [f"{more:,} more numbers are not valid in JSON."] if more > 0 else []
        return messages


@pause_collector()
def load_document(text: str, file_name: str, shown_as: str) -> LoadedDocument:
    """Parse JSON or YAML, depending on the file's name.

    Raises:
        BadFile: with line and column of the syntax error.
    """
    is_yaml = file_name.lower().endswith(YAML_SUFFIXES)
    try:
        if is_yaml:
            document, duplicates = plain_yaml.load_yaml(text)
            return LoadedDocument(text, shown_as, document, json.dumps(document), "yaml", duplicates)
        document, duplicates = _load_json(text)
        return LoadedDocument(text, shown_as, document, text, "json", duplicates)
    except json.JSONDecodeError as error:
        problem = FileProblem(shown_as, f"is no JSON: {error.msg}", line=error.lineno, column=error.colno)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        problem = FileProblem(
            shown_as, f"is no YAML: {error.problem or error.context}", line=line, column=column
        )
    except RecursionError:
        problem = FileProblem(shown_as, "cannot be read: its values are nested too deeply")
    except (yaml.YAMLError, ValueError, TypeError) as error:
        problem = FileProblem(shown_as, f"cannot be read: {str(error).splitlines()[0]}")
    raise BadFile([problem])


def _load_json(text: str) -> tuple[Any, list[str]]:
    """Parse JSON; return also the keys that an object contains twice."""
    duplicates: list[str] = []

    def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            duplicates.extend(name for name, count in counts.items() if count > 1)
        return members

    return text_input.parse_json(text, object_pairs_hook=build_object), duplicates


_old_cases = TypeAdapter(list[legacy.OldCase])
_old_turns = TypeAdapter(list[legacy.OldTurn])


def _read_content(loaded: LoadedDocument, stem: str) -> EvalSetContent | None:
    document, as_json, kind = loaded.document, loaded.as_json, loaded.kind
    if isinstance(document, dict):
        evalset = schema.EvalSetModel.model_validate_json(as_json)
        return EvalSetContent(
            evalset.eval_set_id,
            evalset.name or "",
            evalset.description or "",
            evalset.eval_cases,
            kind,
            "evalset",
            [f"ADK does not use the field {name!r} of the file." for name in evalset.model_extra or ()],
            evalset.devui_fixtures or [],
        )
    if not isinstance(document, list):
        return None
    if legacy.is_flat(document):
        case = legacy.OldCase(name=stem, data=_old_turns.validate_json(as_json))
        return EvalSetContent("", stem, "", [case.modern()], kind, "flat")
    cases = [case.modern() for case in _old_cases.validate_json(as_json)]
    return EvalSetContent("", stem, "", cases, kind, "legacy")


def _describe_kind(document: Any) -> str:
    return "an empty file" if document is None else f"a single {type(document).__name__}"


def _iter_warnings(content: EvalSetContent) -> Iterator[str]:
    if not content.cases:
        yield "The evalset has no cases."
    blank = [number for number, case in enumerate(content.cases, 1) if not case.eval_id.strip()]
    yield from (f"Case {number} has an empty id: nobody can choose it by its name." for number in blank)
    times = Counter(case.eval_id for case in content.cases)
    yield from (f"The case id {name!r} is given {count} times." for name, count in times.items() if count > 1)
    for case in content.cases:
        if case.conversation is not None and not case.conversation:
            yield f"Case {case.eval_id!r} has no turns: no metric can judge it."
        if case.session_input is not None and not case.session_input.app_name:
            yield (
                f"Case {case.eval_id!r}: session_input.app_name is empty. ADK refuses to run it, unless the agent is an"
                " App."
            )
        for name in dict.fromkeys(_unused_fields(case)):
            if name != TURN_STATES:
                yield f"Case {case.eval_id!r}: ADK does not use the field {name!r}."


def _unused_fields(value: Any, path: str = "") -> Iterator[str]:
    """Yield the fields that ADK ignores, such as `session_input.locale`. Events have some that ADK's editor adds."""
    if isinstance(value, list):
        for entry in value:
            yield from _unused_fields(entry, path)
    elif isinstance(value, BaseModel) and not isinstance(value, schema.InvocationModel):
        yield from (f"{path}{name}" for name in value.model_extra or ())
        for name, inner in value:
            yield from _unused_fields(inner, f"{path}{name}.")
