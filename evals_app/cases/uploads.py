"""Uploaded files: evalsets in all forms, lists of scenarios, and `test_config.json`."""

from __future__ import annotations

import time
from pathlib import PurePosixPath

from pydantic import ConfigDict, TypeAdapter, ValidationError

from evals_app.files import BadFile, FileProblem, atomic_writes, file_changes, library
from evals_app.files.editing import Json, case_json
from evals_app.files.file_changes import EvalsetIdTaken, write_error
from evals_app.files.parsing import (
    YAML_SUFFIXES,
    EvalsetFile,
    LoadedDocument,
    decode_content,
    load_document,
    parse_document,
)
from evals_app.files.schema import ConversationScenario, Strict
from evals_app.metrics import config
from evals_app.models import EvalSet
from sessions_app.store.errors import BadInput

MAX_BYTES = 16_000_000
CONFIG_NAME = "test_config.json"


class Scenarios(Strict):
    """ADK's `ConversationScenarios`, which `adk eval_set add_eval_case` reads."""

    model_config = ConfigDict(extra="forbid")

    scenarios: list[ConversationScenario]


def decode_upload(name: str, content: bytes) -> str:
    """Return an uploaded file's text.

    Raises:
        BadFile: the file is too large, or no text.
    """
    if len(content) > MAX_BYTES:
        raise BadFile([FileProblem(name, f"is larger than {MAX_BYTES / 1e6:.0f} MB, which is the most")])
    return decode_content(name, content)


def parse_upload(name: str, content: bytes) -> EvalsetFile | str:
    """Return the evalset of an uploaded file, or the text of a `test_config.json`. Scenarios become an evalset.

    This is the slow part of an upload, and needs no database.

    Raises:
        BadFile: the file is invalid.
        BadInput: the file's name is invalid.
    """
    base = base_name(name)
    text = decode_upload(base, content)
    if base == CONFIG_NAME:
        config.parse_config(text, CONFIG_NAME, CONFIG_NAME)
        return text
    loaded = load_document(text, base, base)
    if (scenarios := _read_scenarios(loaded)) is not None:
        return file_changes.build_new_file(_evalset_name(base), scenarios, creation_timestamp=time.time())
    return parse_document(loaded, _file_name(base))


def store_upload(app_name: str, upload: EvalsetFile | str) -> EvalSet | None:
    """Write a parsed upload to an agent's folder; return its evalset. An existing file is never replaced.

    Raises:
        NotFound: the app does not exist.
        BadInput: the file's name is taken, or it cannot be written.
    """
    if isinstance(upload, str):
        _put_config(app_name, upload)
        return None
    return file_changes.add_file(app_name, upload)


def read_cases(name: str, text: str) -> list[Json]:
    """Return the cases of an uploaded file, in ADK's present form.

    Raises:
        BadFile: it cannot be used.
    """
    loaded = load_document(text, name, name)
    cases = _read_scenarios(loaded)
    if cases is not None:
        return cases
    return [case_json(case) for case in parse_document(loaded, name).content.cases]


def _read_scenarios(loaded: LoadedDocument) -> list[Json] | None:
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
    return [
        {
            "eval_id": f"scenario-{number}",
            "conversation_scenario": scenario.model_dump(mode="json", exclude_unset=True),
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
    if library.file_evalset_id(base):
        return base
    suffix = ".yaml" if base.lower().endswith(YAML_SUFFIXES) else ".json"
    return f"{_evalset_name(base)}.evalset{suffix}"


def _evalset_name(base: str) -> str:
    for suffix in (*library.EVALSET_SUFFIXES, ".json", *YAML_SUFFIXES):
        if base.lower().endswith(suffix):
            return base[: -len(suffix)]
    return base


def _put_config(app_name: str, text: str) -> None:
    path = file_changes.agents_folder().app_folder(app_name) / CONFIG_NAME
    try:
        atomic_writes.create_file(path, text)
    except FileExistsError as error:
        raise EvalsetIdTaken(
            f"Agent {app_name!r} has a {CONFIG_NAME} already.", hint="Change that one, or remove it first."
        ) from error
    except OSError as error:
        raise write_error(path, error) from error
