"""Edits of evalset files: an edit changes the list of cases, and the text is rewritten in the file's own form.

Edits see cases in ADK's present form in snake case, whatever form the file has. An edit is rejected when the file's
form cannot hold its result. The new text is parsed again and compared with the result before it is returned.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from evals_app.files import json_edit, legacy, schema, yaml_edit
from evals_app.files.pairing import is_same_json, pair_items
from evals_app.files.parsing import (
    EvalSetContent,
    EvalsetFile,
    LoadedDocument,
    load_document,
    parse_case,
    parse_document,
    parse_file,
)
from evals_app.files.plain_yaml import dump_yaml
from evals_app.files.problems import BadFile
from evals_app.files.spelling import keep_spelling, spell_fields
from sessions_app.errors import BadInput
from sessions_app.store.gc_tuning import pause_collector

Json = dict[str, Any]


@dataclass
class Sheet:
    """Editable content of an evalset.

    Attributes:
        cases: in ADK's present form, snake case, without unset fields.
        about: `name` and `description` of the evalset, if set.
        present_form: set to the evalset's id by an edit that converts the file to ADK's present form.
    """

    cases: list[Json]
    about: Json = field(default_factory=dict)
    present_form: str = ""


Edit = Callable[[Sheet], None]


def case_json(case: schema.EvalCase) -> Json:
    """Return a case in the form for edits."""
    return case.model_dump(mode="json", exclude_unset=True)


@pause_collector()
def apply_edit(file: EvalsetFile, edit: Edit) -> EvalsetFile:
    """Return an evalset file after an edit; the same object if nothing changes.

    Raises:
        BadFile: the file would be invalid.
        BadInput: the file's form cannot hold the result, or `edit` raises it.
    """
    before = Sheet([case_json(case) for case in file.content.cases], _description_of(file.document))
    after = Sheet(list(map(deepcopy, before.cases)), dict(before.about))
    edit(after)
    if after.present_form and file.content.form != "evalset":
        return build_file(file.file_name, after.present_form, after.cases, **after.about)
    new = _edit_document(file.document, file.content, before, after, file.shown_as)
    if is_same_json(file.document, new):
        return file
    return parse_document(_load_new_text(file, _rewrite_text(file, new), new), file.file_name)


def _load_new_text(file: EvalsetFile, text: str, new: Any) -> LoadedDocument:
    """Parse a file's new text and check that its value is `new`.

    Raises:
        BadInput: the value differs, for instance because aliases lost their anchor.
    """
    try:
        loaded = load_document(text, file.file_name, file.shown_as)
    except BadFile:
        loaded = None
    if loaded is None or not is_same_json(loaded.document, new):
        raise _cannot_edit(
            file.shown_as, "its text cannot be changed in place without changing something else, too"
        )
    return loaded


def build_file(file_name: str, eval_set_id: str, cases: list[Json], **more: Any) -> EvalsetFile:
    """Return a new evalset file.

    Raises:
        BadFile: a case is invalid.
        BadInput: a value cannot be written to a file.
    """
    document = {"eval_set_id": eval_set_id, **more, "eval_cases": cases}
    try:
        text = (
            dump_yaml(document, indented=True)
            if file_name.endswith((".yaml", ".yml"))
            else json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        )
        text.encode()
    except (ValueError, UnicodeError) as error:
        raise _not_writable(file_name, error) from error
    return parse_file(text, file_name, file_name)


def _description_of(document: Any) -> Json:
    fields = document if isinstance(document, dict) else {}
    return {name: fields[name] for name in ("name", "description") if name in fields}


def _rewrite_text(file: EvalsetFile, new: Any) -> str:
    """Return a file's text, rewritten for a new value."""
    try:
        write = json_edit.rewrite_json if file.content.format == "json" else yaml_edit.rewrite_yaml
        new_text = write(file.text, file.document, new)
        new_text.encode()
    except yaml_edit.UneditableYaml as error:
        raise _cannot_edit(file.shown_as, str(error)) from error
    except json.JSONDecodeError as error:
        raise _cannot_edit(file.shown_as, "a YAML file in brackets cannot be changed in place") from error
    except (ValueError, UnicodeError) as error:
        raise _not_writable(file.shown_as, error) from error
    return new_text


def _edit_document(document: Any, content: EvalSetContent, before: Sheet, after: Sheet, shown_as: str) -> Any:
    if isinstance(document, dict):
        cases = _edit_cases(document["eval_cases"], before.cases, after.cases)
        rest = {name: value for name, value in document.items() if name not in before.about}
        about = {name: value for name, value in after.about.items() if value is not None}
        order = [*document, *(name for name in about if name not in document)]
        whole = {**rest, **about, "eval_cases": cases}
        return {name: whole[name] for name in order if name in whole}
    if not is_same_json(before.about, after.about):
        raise _legacy_cannot_hold(shown_as, "a name or a description")
    if content.form == "flat":
        return _edit_flat(document, before, after, shown_as)
    return _edit_legacy(document, before, after, shown_as)


def _edit_cases(raw: list[Any], before: list[Json], after: list[Json]) -> list[Any]:
    camel_hint = raw[0] if raw else {}
    return [
        spell_fields(case, _is_camel_case(camel_hint))
        if place is None
        else keep_spelling(raw[place], before[place], case)
        for place, case in zip(pair_items(before, after), after, strict=True)
    ]


def _is_camel_case(raw: Any) -> bool:
    return isinstance(raw, dict) and "evalId" in raw


def _edit_legacy(document: list[Json], before: Sheet, after: Sheet, shown_as: str) -> list[Json]:
    cases = []
    for place, case in zip(pair_items(before.cases, after.cases), after.cases, strict=True):
        raw = {} if place is None else document[place]
        if place is None or not is_same_json(before.cases[place], case):
            new = _to_legacy(case, shown_as)
            fields = {name: value for name, value in raw.items() if name != "initial_session" or name in new}
            raw = legacy.merge_fields(fields, new)
        cases.append(raw)
    return cases


def _edit_flat(document: list[Json], before: Sheet, after: Sheet, shown_as: str) -> list[Json]:
    if len(after.cases) != 1 or after.cases[0].get("eval_id") != before.cases[0]["eval_id"]:
        raise _legacy_cannot_hold(shown_as, "more than the turns of one case, which has the file's name")
    if is_same_json(before.cases, after.cases):
        return document
    if after.cases[0].get("session_input"):
        raise _legacy_cannot_hold(shown_as, "what a session starts with")
    new = _to_legacy(after.cases[0], shown_as)["data"]
    return list(legacy.merge_fields({"data": document}, {"data": new})["data"])


def _to_legacy(case: Json, shown_as: str) -> Json:
    """Return a case in the old form.

    Raises:
        BadInput: the old form cannot hold the case.
        BadFile: the case is invalid.
    """
    model = _validate_case(case, shown_as)
    older = legacy.to_legacy_case(model)
    try:
        says = legacy.OldCase.model_validate(older).modern()
    except ValidationError:
        says = None
    if says is None or not is_same_json(_comparable(says), _comparable(model)):
        raise _legacy_cannot_hold(shown_as, f"all that case {model.eval_id!r} says")
    return older


def _comparable(case: schema.EvalCase) -> Json:
    """Return a case without roles, empty lists and unset fields, for comparison."""
    fields: Json = case.model_dump(mode="json", exclude_defaults=True)
    for turn in fields.get("conversation") or []:
        for name, role in (("user_content", "user"), ("final_response", "model")):
            content = turn.get(name)
            if content is not None and content.get("role", role) == role:
                content.pop("role", None)
            if name == "final_response" and (content or {}).get("parts") in (None, [], [{}], [{"text": ""}]):
                turn.pop(name, None)
        if not any((turn.get("intermediate_data") or {}).values()):
            turn.pop("intermediate_data", None)
    return fields


def _validate_case(case: Json, shown_as: str) -> schema.EvalCase:
    """Return the model of a case.

    Raises:
        BadFile: the case is invalid.
    """
    try:
        return parse_case(json.dumps(case))
    except BadFile as error:
        case_id = str(case.get("eval_id", ""))
        raise BadFile(
            [replace(one, file=shown_as, case=case_id, line=0, column=0) for one in error.problems]
        ) from error


def _legacy_cannot_hold(shown_as: str, what: str) -> BadInput:
    return BadInput(
        f"{shown_as} has an older form of ADK's, which cannot hold {what}.",
        hint="Turn the file into ADK's present form first, which the evalset's page does.",
    )


def _cannot_edit(shown_as: str, why: str) -> BadInput:
    return BadInput(
        f"{shown_as} is changed by hand only: {why}.", hint="Edit the file; this page follows it."
    )


def _not_writable(shown_as: str, error: Exception) -> BadInput:
    return BadInput(f"{shown_as}: {error}.", hint="Give values that JSON can hold, in UTF-8.")
