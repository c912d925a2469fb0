"""Edits of evalset files: an edit changes the list of cases, and the text is rewritten in the file's own form.

Edits see cases in ADK's present form in snake case, whatever form the file has. A file of an older form is rewritten
in the present form, as ADK does. The new text is parsed again and compared with the result before it is returned.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from evals_app.files import json_edit, schema, yaml_edit
from evals_app.files.pairing import is_same_json, pair_items
from evals_app.files.parsing import (
    EvalsetFile,
    LoadedDocument,
    load_document,
    parse_document,
    parse_file,
)
from evals_app.files.plain_yaml import dump_yaml
from evals_app.files.spelling import keep_spelling, spell_fields
from sessions_app.file_problems import BadFile
from sessions_app.store.database.gc_tuning import pause_collector
from sessions_app.store.errors import BadInput

Json = dict[str, Any]


Edit = Callable[[list[Json]], None]
"""Changes the list of cases: in ADK's present form, snake case, without unset fields."""


def case_json(case: schema.EvalCase) -> Json:
    """Return a case in the form for edits."""
    return case.model_dump(mode="json", exclude_unset=True)


@pause_collector()
def apply_edit(file: EvalsetFile, edit: Edit) -> EvalsetFile:
    """Return an evalset file after an edit; the same object if nothing changes.

    Raises:
        BadFile: the file would be invalid.
        BadInput: the file cannot be edited in place, or `edit` raises it.
    """
    before = [case_json(case) for case in file.content.cases]
    after = list(map(deepcopy, before))
    edit(after)
    if is_same_json(before, after):
        return file
    if file.content.form != "evalset":
        return build_file(file.file_name, file.content.name, after)
    new = {**file.document, "eval_cases": _edit_cases(file.document["eval_cases"], before, after)}
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


def _edit_cases(raw: list[Any], before: list[Json], after: list[Json]) -> list[Any]:
    camel_hint = raw[0] if raw else {}
    return [
        spell_fields(case, isinstance(camel_hint, dict) and "evalId" in camel_hint)
        if index is None
        else keep_spelling(raw[index], before[index], case)
        for index, case in zip(pair_items(before, after), after, strict=True)
    ]


def _cannot_edit(shown_as: str, why: str) -> BadInput:
    return BadInput(
        f"{shown_as} is changed by hand only: {why}.", hint="Edit the file; this page follows it."
    )


def _not_writable(shown_as: str, error: Exception) -> BadInput:
    return BadInput(f"{shown_as}: {error}.", hint="Give values that JSON can hold, in UTF-8.")
