"""Edits of cases by ADK's front end, one at a time, in files of any form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from evals_app.cases import edits
from evals_app.files.file_changes import edit_file, read_cases
from evals_app.files.schema import EvalCase
from evals_app.models import EvalSet
from sessions_app.store.errors import BadInput, InvalidBody, NotFound

Json = dict[str, Any]

EDITOR_FIELDS = ("invocationIndex", "toolUseIndex", "finalResponsePartIndex")
"""Fields that ADK's front end adds to cases and that do not belong in files."""

AGENT_FIELDS = ("args", "response", "state", "finalSessionState", "final_session_state")
"""Fields whose values may have any names."""


def find_case(evalset: EvalSet, case_id: str) -> EvalCase:
    """Return one case.

    Raises:
        NotFound: the evalset has no such case.
        BadFile: the file cannot be used.
    """
    match = next((case for case in read_cases(evalset) if case.eval_id == case_id), None)
    if match is None:
        raise _case_not_found(evalset, case_id)
    return match


def add_case(evalset: EvalSet, added: Json, origin: str = "api") -> None:
    """Add a case to an evalset's file.

    Raises:
        BadInput: its id is taken, or the file cannot be changed.
    """

    def edit(cases: list[Json]) -> None:
        if any(other["eval_id"] == added["eval_id"] for other in cases):
            raise BadInput(
                f"Eval id `{added['eval_id']}` already exists in `{evalset.evalset_id}` eval set.",
                hint="Choose another id, or delete that case first.",
            )
        cases.append(added)

    edit_file(evalset, edit, origin)


def replace_case(evalset: EvalSet, case_id: str, sent_case: Json) -> None:
    """Replace a case with that of an editor. Fields that were not sent, such as rubrics, stay.

    Raises:
        NotFound: the evalset has no such case.
        InvalidBody: the sent case is invalid.
        BadInput: the sent case has another id, or the file cannot be changed.
    """

    def edit(cases: list[Json]) -> None:
        index = _case_index(cases, evalset, case_id)
        original = cases[index]
        changed = validate_case(
            _merge_fields(original, _to_snake_case(original, _without_editor_fields(sent_case)))
        )
        if changed["eval_id"] != case_id:
            raise BadInput(
                "Eval id in EvalCase should match the eval id in the API route.",
                hint="Delete the case and add it under its new id.",
            )
        cases[index] = _without_defaults(original, changed)

    edit_file(evalset, edit, "api")


def remove_case(evalset: EvalSet, case_id: str) -> None:
    """Remove a case from an evalset's file.

    Raises:
        NotFound: the evalset has no such case.
        BadInput: the file cannot be changed.
    """

    def edit(cases: list[Json]) -> None:
        del cases[_case_index(cases, evalset, case_id)]

    edit_file(evalset, edit, "api")


def _case_index(cases: list[Json], evalset: EvalSet, case_id: str) -> int:
    """Return the index of a case.

    Raises:
        NotFound: the evalset has no such case.
    """
    index = edits.find_case_index(cases, case_id)
    if index is None:
        raise _case_not_found(evalset, case_id)
    return index


def validate_case(document: Mapping[str, Any]) -> Json:
    """Return a case with only the fields that were set.

    Raises:
        InvalidBody: it is no case of ADK.
    """
    try:
        validated = EvalCase.model_validate(document)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False)
        raise InvalidBody([{**fault, "loc": ["body", *fault["loc"]]} for fault in faults]) from error
    return validated.model_dump(mode="json", exclude_unset=True)


def _to_snake_case(original: Json, sent_case: Json) -> Json:
    """Return the sent case in snake case, with the original conversation or scenario if none was sent."""
    set_fields = {name: value for name, value in sent_case.items() if value is not None}
    if "conversation_scenario" in original and not set_fields.get("conversation"):
        set_fields.pop("conversation", None)
    if not {"conversation", "conversationScenario", "conversation_scenario"} & set_fields.keys():
        set_fields |= {
            name: original[name] for name in ("conversation", "conversation_scenario") if name in original
        }
    if not {"evalId", "eval_id"} & set_fields.keys():
        set_fields["eval_id"] = original["eval_id"]
    return validate_case(set_fields)


def _merge_fields(original: Json, sent_case: Json) -> Json:
    """Return the sent case with the unsent fields of the original case and of its turns."""
    merged = {**original, **sent_case}
    if "session_input" in original and "session_input" in sent_case:
        merged["session_input"] = {**original["session_input"], **sent_case["session_input"]}
    turns = original.get("conversation") or []
    if "conversation" in sent_case:
        merged["conversation"] = [
            {**(turns[index] if index < len(turns) else {}), **turn}
            for index, turn in enumerate(sent_case["conversation"])
        ]
    return merged


def _without_defaults(original: Any, changed: Any) -> Any:
    """Return a case without default values that the original case did not have."""
    if isinstance(original, dict) and isinstance(changed, dict):
        return {
            name: value
            if name in AGENT_FIELDS or (name in original and not isinstance(value, dict | list))
            else _without_defaults(original.get(name), value)
            for name, value in changed.items()
            if name in original or value not in ("", 0.0, {}, [], None)
        }
    if isinstance(original, list) and isinstance(changed, list):
        return [
            _without_defaults(original[index] if index < len(original) else None, item)
            for index, item in enumerate(changed)
        ]
    return changed


def _without_editor_fields(value: Any) -> Any:
    """Return a sent value without the editor's own fields. Data of agents stays unchanged."""
    if isinstance(value, dict):
        return {
            name: item if name in AGENT_FIELDS else _without_editor_fields(item)
            for name, item in value.items()
            if name not in EDITOR_FIELDS
        }
    return [_without_editor_fields(item) for item in value] if isinstance(value, list) else value


def _case_not_found(evalset: EvalSet, case_id: str) -> NotFound:
    return NotFound(
        f"Eval case `{case_id}` not found in eval set `{evalset.evalset_id}`.",
        hint=f"{evalset.path} says which cases there are.",
    )
