"""Evalset files changed: one case at a time, everything else as it stands there.

Only ADK's present form in JSON is written. What YAML says in comments, and the older forms, are left to people.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evals_app.evalsets.reading import load_document, parse, read_text
from sessions_app.errors import BadInput

Json = dict[str, Any]
Edit = Callable[[list[Json]], None]
"""Changes a list of cases, each as the file spells it."""

_one_at_a_time = threading.Lock()


def create(path: Path, eval_set_id: str, cases: list[Json], created_at: float) -> None:
    """Write a new evalset file.

    Raises:
        FileExistsError: it is there already.
        BadFile: a case cannot be used.
        OSError: the file cannot be written.
    """
    document = {
        "eval_set_id": eval_set_id,
        "name": eval_set_id,
        "eval_cases": cases,
        "creation_timestamp": created_at,
    }
    with _one_at_a_time:
        if path.exists():
            raise FileExistsError(path)
        _write(path, document, path.name)


def change(path: Path, shown_as: str, edit: Edit) -> None:
    """Change the cases of an evalset file.

    Raises:
        NotFound: the file is gone.
        BadFile: it cannot be used as it is, or could not after the change.
        BadInput: its format is not one that is written, or whatever `edit` raises.
        OSError: the file cannot be written.
    """
    with _one_at_a_time:
        document, _, kind = load_document(read_text(path, shown_as), path.name, shown_as)
        if kind != "json" or not isinstance(document, dict) or not _is_list(document.get("eval_cases")):
            raise BadInput(
                f"{shown_as} is changed by hand only: it is not in ADK's present form in JSON.",
                hint="Edit the file, or save its cases as NAME.evalset.json.",
            )
        edit(document["eval_cases"])
        _write(path, document, shown_as)


def id_of(case: Mapping[str, Any]) -> str:
    """Return the id of a case, however the file spells the field."""
    return str(case.get("eval_id", case.get("evalId", "")))


def _is_list(cases: Any) -> bool:
    return isinstance(cases, list) and all(isinstance(case, dict) for case in cases)


def _write(path: Path, document: Json, shown_as: str) -> None:
    """Write a document that can be read again, whole or not at all."""
    try:
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        text.encode()
    except ValueError as error:
        raise BadInput(f"{shown_as}: {error}.", hint="Send JSON in UTF-8.") from error
    parse(text, path.name, shown_as)
    _replace(path, text)


def _replace(path: Path, text: str) -> None:
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        if path.exists():
            shutil.copymode(path, name)
        else:
            os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
