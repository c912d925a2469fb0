"""Uploaded files: evalsets in all forms, lists of scenarios, and `test_config.json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from evals_app.files import BadFile, Problem, atomic_writes, file_changes, library
from evals_app.files.editing import case_json
from evals_app.files.file_changes import EvalsetIdTaken, write_error
from evals_app.files.parsing import YAML_SUFFIXES, EvalsetFile, LoadedDocument, load_document, parse_document
from evals_app.files.schema import ConversationScenario, SessionInput, Strict
from evals_app.metrics import config
from evals_app.models import EvalSet
from sessions_app.errors import BadInput

Json = dict[str, Any]

MAX_BYTES = 16_000_000
CONFIG_NAME = "test_config.json"


class Scenarios(Strict):
    """ADK's `ConversationScenarios`, which `adk eval_set add_eval_case` reads."""

    model_config = ConfigDict(extra="forbid")

    scenarios: list[ConversationScenario]


@dataclass(frozen=True)
class SessionStart:
    """Uploaded `SessionInput` of ADK: the initial session of the scenarios in the same upload."""

    file_name: str
    session: SessionInput


@dataclass(frozen=True)
class ParsedUpload:
    """Parsed upload: a configuration, scenarios as cases, or an evalset."""

    base: str
    text: str
    scenarios: list[Json] | None = None
    evalset: EvalsetFile | None = None
    start: str = ""


@dataclass(frozen=True)
class UploadResult:
    """Result of an upload. `evalset` is None for a configuration; `start` names the file of the initial session."""

    file_name: str
    evalset: EvalSet | None
    start: str = ""


def decode_upload(name: str, content: bytes) -> str:
    """Return an uploaded file's text.

    Raises:
        BadFile: the file is too large, or no UTF-8 text.
    """
    if len(content) > MAX_BYTES:
        raise BadFile([Problem(name, f"is larger than {MAX_BYTES / 1e6:.0f} MB, which is the most")])
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise BadFile([Problem(name, f"is not UTF-8 text (byte {error.start}): save it as UTF-8")]) from error


def separate_session_start(
    files: Sequence[tuple[str, bytes]],
) -> tuple[SessionStart | None, list[tuple[str, bytes]]]:
    """Return the initial session among uploaded files, if any, and the other files.

    Raises:
        BadFile: the file of the initial session is invalid.
        BadInput: several files have one.
    """
    starts_of_files = [_parse_session_start(name, content) for name, content in files]
    starts = [start for start in starts_of_files if start]
    if len(starts) > 1:
        raise BadInput(
            f"{' and '.join(start.file_name for start in starts)} both say how sessions start.",
            hint="Upload scenarios with one such file at a time.",
        )
    rest = [file for file, start in zip(files, starts_of_files, strict=True) if start is None]
    return next(iter(starts), None), rest


def _parse_session_start(name: str, content: bytes) -> SessionStart | None:
    """Parse a JSON file as an initial session; None if it is something else."""
    if name.lower().endswith(YAML_SUFFIXES):
        return None
    try:
        base = base_name(name)
        loaded = load_document(decode_upload(base, content), base, base)
    except BadInput:
        return None  # `parse_upload` reports the reason
    document = loaded.document
    is_one = isinstance(document, dict) and not {"scenarios", "eval_cases", "criteria"} & document.keys()
    if not is_one or not {"app_name", "appName"} & document.keys():
        return None
    try:
        return SessionStart(base, SessionInput.model_validate_json(loaded.as_json))
    except ValidationError as error:
        raise BadFile(loaded.problems(error)) from error


def parse_upload(name: str, content: bytes, start: SessionStart | None = None) -> ParsedUpload:
    """Parse an uploaded file. This is the slow part of an upload, and needs no database.

    Raises:
        BadFile: the file is invalid.
        BadInput: the file's name is invalid.
    """
    base = base_name(name)
    text = decode_upload(base, content)
    if base == CONFIG_NAME:
        config.parse_config(text, CONFIG_NAME, CONFIG_NAME)
        return ParsedUpload(base, text)
    loaded = load_document(text, base, base)
    if (scenarios := scenarios_of(loaded, start.session if start else None)) is not None:
        return ParsedUpload(base, text, scenarios=scenarios, start=start.file_name if start else "")
    return ParsedUpload(base, text, evalset=parse_document(loaded, _file_name(base)))


def store_upload(app_name: str, file: ParsedUpload) -> UploadResult:
    """Write a parsed upload to an agent's folder.

    Evalsets are written unchanged, scenarios become an evalset, and `test_config.json` is never overwritten.

    Raises:
        NotFound: the app does not exist.
        BadInput: the file's name is taken, or it cannot be written.
    """
    if file.scenarios is not None:
        return UploadResult(
            file.base, file_changes.create_evalset(app_name, _stem(file.base), file.scenarios), file.start
        )
    if file.evalset is not None:
        return UploadResult(file.base, file_changes.add_file(app_name, file.evalset))
    _put_config(app_name, file.text)
    return UploadResult(file.base, None)


def cases_of(name: str, text: str) -> list[Json]:
    """Return the cases of an uploaded file, in ADK's present form.

    Raises:
        BadFile: it cannot be used.
    """
    loaded = load_document(text, name, name)
    cases = scenarios_of(loaded)
    return (
        cases
        if cases is not None
        else [case_json(case) for case in parse_document(loaded, name).content.cases]
    )


def scenarios_of(loaded: LoadedDocument, start: SessionInput | None = None) -> list[Json] | None:
    """Return a file's scenarios as cases; None if it has no scenarios.

    Raises:
        BadFile: a scenario is invalid.
    """
    document = loaded.document
    if not isinstance(document, dict) or "scenarios" not in document or "eval_cases" in document:
        return None
    try:
        scenarios = TypeAdapter(Scenarios).validate_json(loaded.as_json).scenarios
    except ValidationError as error:
        raise BadFile(loaded.problems(error)) from error
    session_input = {"session_input": start.model_dump(mode="json", exclude_unset=True)} if start else {}
    return [
        {
            "eval_id": f"scenario-{number}",
            "conversation_scenario": scenario.model_dump(mode="json", exclude_unset=True),
            **session_input,
        }
        for number, scenario in enumerate(scenarios, 1)
    ]


def base_name(name: str) -> str:
    """Return a file's name without folders, which some browsers send.

    Raises:
        BadInput: the name is empty or hidden.
    """
    base = PurePosixPath(name.replace("\\", "/")).name
    if not base or base.startswith("."):
        raise BadInput("The file has no name that it could keep.", hint="Name it NAME.evalset.json.")
    return base


def _file_name(base: str) -> str:
    """Return the name for an evalset in the agent's folder."""
    if library.id_of_file(base):
        return base
    suffix = ".yaml" if base.lower().endswith(YAML_SUFFIXES) else ".json"
    return f"{_stem(base)}.evalset{suffix}"


def _stem(base: str) -> str:
    for suffix in (*library.EVALSET_SUFFIXES, ".json", *YAML_SUFFIXES):
        if base.lower().endswith(suffix):
            return base[: -len(suffix)]
    return base


def _put_config(app_name: str, text: str) -> None:
    path = file_changes.agents_folder().folder_of(app_name) / CONFIG_NAME
    try:
        atomic_writes.create_file(path, text)
    except FileExistsError as error:
        raise EvalsetIdTaken(
            f"Agent {app_name!r} has a {CONFIG_NAME} already.", hint="Change that one, or remove it first."
        ) from error
    except OSError as error:
        raise write_error(path, error) from error
