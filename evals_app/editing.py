"""Evalset files as ADK's front end changes them: made, filled with cases, and removed. The rows follow at once."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evals_app import library
from evals_app.evalsets import writing
from evals_app.evalsets.reading import parse, read_text
from evals_app.evalsets.schema import EvalCase
from evals_app.models import EvalSet
from sessions_app import overview
from sessions_app.agents import AgentsFolder
from sessions_app.errors import BadInput, InvalidBody, NotFound

Json = dict[str, Any]

ID = re.compile(r"[a-zA-Z0-9_-]{1,100}")
"""ADK's ids, and hyphens, which its own loader reads."""

OF_THE_EDITOR = ("invocationIndex", "toolUseIndex", "finalResponsePartIndex")
"""Fields that ADK's front end adds to what it edits and that no file holds."""

OF_THE_AGENT = ("args", "response", "state", "finalSessionState", "final_session_state")
"""Fields whose values may have any names."""


def agents_folder() -> AgentsFolder:
    """Return the folder that holds the agents and their evalsets.

    Raises:
        NotFound: this server has none.
    """
    found = overview.folder()
    if found is None:
        raise NotFound("This server has no folder of agents.", hint="Set DEVUI_AGENTS_DIR.")
    return found


def evalset_of(app_name: str, evalset_id: str) -> EvalSet:
    """Return the row of an evalset as its file is now.

    Raises:
        NotFound: no such app or evalset.
    """
    library.refresh(agents_folder(), app_name)
    evalset = library.find(app_name, evalset_id)
    if evalset.gone:
        raise NotFound(f"Eval set `{evalset_id}` not found.", hint="Its file is not there any more.")
    return evalset


def create(app_name: str, evalset_id: str, cases: list[Json]) -> EvalSet:
    """Make a new evalset file beside an agent.

    Raises:
        NotFound: no such app.
        BadInput: the id cannot be one or is taken, a case cannot be used, or the file cannot be written.
    """
    if not ID.fullmatch(evalset_id):
        raise BadInput(
            f"Invalid Eval Set ID. Eval Set ID should have the `^{ID.pattern}$` format",
            hint="Choose a name of letters, digits, hyphens and underscores.",
        )
    folder = agents_folder().folder_of(app_name)
    if evalset_id in library.files_beside(folder):
        raise BadInput(f"EvalSet {evalset_id} already exists for app {app_name}.", hint="Choose another id.")
    path = folder / f"{evalset_id}{library.EVALSET_SUFFIXES[0]}"
    try:
        writing.create(path, evalset_id, cases, time.time())
    except OSError as error:
        raise _cannot_write(path, error) from error
    return evalset_of(app_name, evalset_id)


def remove(app_name: str, evalset_id: str) -> None:
    """Remove an evalset's file. The runs that used it stay, with what it said.

    Raises:
        NotFound: no such app or evalset.
        BadInput: the file cannot be removed.
    """
    path = library.path_of(agents_folder(), evalset_of(app_name, evalset_id))
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _cannot_write(path, error) from error
    library.refresh(agents_folder(), app_name)


def cases(evalset: EvalSet) -> list[EvalCase]:
    """Return the cases of an evalset's file.

    Raises:
        BadFile: the file cannot be used.
    """
    path = library.path_of(agents_folder(), evalset)
    return parse(read_text(path, evalset.path), path.name, evalset.path).cases


def case(evalset: EvalSet, case_id: str) -> EvalCase:
    """Return one case.

    Raises:
        NotFound: the evalset has no such case.
        BadFile: the file cannot be used.
    """
    found = next((one for one in cases(evalset) if one.eval_id == case_id), None)
    if found is None:
        raise _no_case(evalset, case_id)
    return found


def add_case(evalset: EvalSet, added: Json) -> None:
    """Add a case to an evalset's file.

    Raises:
        BadInput: its id is taken, or the file cannot be changed.
    """

    def edit(known: list[Json]) -> None:
        if any(writing.id_of(one) == writing.id_of(added) for one in known):
            raise BadInput(
                f"Eval id `{writing.id_of(added)}` already exists in `{evalset.evalset_id}` eval set.",
                hint="Choose another id, or delete that case first.",
            )
        known.append(added)

    _change(evalset, edit)


def replace_case(evalset: EvalSet, case_id: str, sent: Json) -> None:
    """Change a case as an editor sent it. What it did not send, such as rubrics, stays as it is.

    Raises:
        NotFound: the evalset has no such case.
        InvalidBody: what was sent makes no case.
        BadInput: its id is another one, or the file cannot be changed.
    """
    kept = case(evalset, case_id).model_dump(mode="json", exclude_unset=True)
    changed = _valid(_merged(kept, _in_snake(kept, _without_marks(sent))))
    if changed["eval_id"] != case_id:
        raise BadInput(
            "Eval id in EvalCase should match the eval id in the API route.",
            hint="Delete the case and add it under its new id.",
        )

    def edit(known: list[Json]) -> None:
        for place, one in enumerate(known):
            if writing.id_of(one) == case_id:
                known[place] = changed
                return
        raise _no_case(evalset, case_id)

    _change(evalset, edit)


def remove_case(evalset: EvalSet, case_id: str) -> None:
    """Remove a case from an evalset's file.

    Raises:
        NotFound: the evalset has no such case.
        BadInput: the file cannot be changed.
    """

    def edit(known: list[Json]) -> None:
        place = next((at for at, one in enumerate(known) if writing.id_of(one) == case_id), None)
        if place is None:
            raise _no_case(evalset, case_id)
        del known[place]

    _change(evalset, edit)


def _change(evalset: EvalSet, edit: writing.Edit) -> None:
    path = library.path_of(agents_folder(), evalset)
    try:
        writing.change(path, evalset.path, edit)
    except OSError as error:
        raise _cannot_write(path, error) from error
    library.refresh(agents_folder(), evalset.app_name)


def _valid(document: Mapping[str, Any]) -> Json:
    try:
        found = EvalCase.model_validate(document)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False)
        raise InvalidBody([{**fault, "loc": ["body", *fault["loc"]]} for fault in faults]) from error
    return found.model_dump(mode="json", exclude_unset=True)


def _in_snake(kept: Json, sent: Json) -> Json:
    """Return what was sent in the file's spelling; a kind of conversation that was not sent is the one kept."""
    whole = {name: value for name, value in sent.items() if value is not None}
    if "conversation_scenario" in kept and not whole.get("conversation"):
        whole.pop("conversation", None)
    if not {"conversation", "conversationScenario", "conversation_scenario"} & whole.keys():
        whole |= {name: kept[name] for name in ("conversation", "conversation_scenario") if name in kept}
    if not {"evalId", "eval_id"} & whole.keys():
        whole["eval_id"] = kept["eval_id"]
    return _valid(whole)


def _merged(kept: Json, sent: Json) -> Json:
    """Return what was sent, with the fields it leaves out of what it changes: of the case and of its turns."""
    merged = {**kept, **sent}
    if "session_input" in kept and "session_input" in sent:
        merged["session_input"] = {**kept["session_input"], **sent["session_input"]}
    turns = kept.get("conversation") or []
    if "conversation" in sent:
        merged["conversation"] = [
            {**(turns[place] if place < len(turns) else {}), **turn}
            for place, turn in enumerate(sent["conversation"])
        ]
    return merged


def _without_marks(value: Any) -> Any:
    """Return what an editor sent without the fields of its own; values that are the agent's stay as they are."""
    if isinstance(value, dict):
        return {
            name: one if name in OF_THE_AGENT else _without_marks(one)
            for name, one in value.items()
            if name not in OF_THE_EDITOR
        }
    return [_without_marks(one) for one in value] if isinstance(value, list) else value


def _no_case(evalset: EvalSet, case_id: str) -> NotFound:
    return NotFound(
        f"Eval case `{case_id}` not found in eval set `{evalset.evalset_id}`.",
        hint=f"{evalset.path} says which cases there are.",
    )


def _cannot_write(path: Path, error: OSError) -> BadInput:
    return BadInput(
        f"{path.name} cannot be written: {error.strerror}.", hint="Check the rights of the agent's folder."
    )
