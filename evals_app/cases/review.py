"""Review of a change before it is saved: the lines of the file that it changes.

A form records the digest of the file that it was opened on. When the file has changed since, the change is computed
again on the present file and shown again, with a warning if it replaces a case that others have changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any

from evals_app.cases import edits
from evals_app.cases.case_forms import AppliedForm, case_form_data
from evals_app.cases.form_fields import Nested
from evals_app.files import BadFile, FileProblem, file_changes, library
from evals_app.files.atomic_writes import FileChanged, text_digest
from evals_app.files.editing import Edit, case_json
from evals_app.files.file_changes import EvalsetChange
from evals_app.files.pairing import is_same_json
from evals_app.files.parsing import parse_case
from evals_app.models import EvalSet
from sessions_app.lookup import parse_number
from sessions_app.presentation import value_diff
from sessions_app.store.errors import NotFound

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FormBase:
    """The case that a form was opened on.

    Attributes:
        digest: of the file's text; "" for a new case that is no copy.
        place: index of the case in the file; None for an empty form.
        is_new: the form adds a case.
    """

    digest: str
    place: int | None
    is_new: bool


@dataclass(frozen=True)
class CaseReview:
    """Result of reviewing a form.

    Attributes:
        case: the case that the form describes.
        errors: messages for invalid fields, by field name; then there is no change.
        change: the change to the file.
        is_file_changed: the file has changed since the form was opened.
        is_case_changed: so has the case, or it was removed; saving replaces or restores it.
    """

    case: Json
    errors: dict[str, str] = field(default_factory=dict)
    change: EvalsetChange | None = None
    is_file_changed: bool = False
    is_case_changed: bool = False


def base_case(evalset: EvalSet, base: FormBase) -> Json:
    """Return the case that a form was opened on; {} for an empty form.

    Raises:
        NotFound: the file's text of that time is not stored, or has no such case.
    """
    if base.place is None:
        return {}
    cases = _find_version_cases(evalset, base.digest)
    if base.place >= len(cases):
        raise NotFound("The evalset has no such case.", hint="Open it from the evalset's page.")
    return cases[base.place]


CaseAndErrors = tuple[Json, dict[str, str]]


def parse_form(base: Json, data: Nested, app_name: str) -> CaseAndErrors:
    """Apply form data to the case on which the form was opened."""
    applied = AppliedForm(data, base, app_name)
    return applied.case, applied.errors


def parse_json(base: Json, text: str) -> CaseAndErrors:
    """Parse a case from JSON in snake case or camel case. An invalid text leaves the case on which it was opened."""
    try:
        return case_json(parse_case(text)), {}
    except BadFile as error:
        return base, {"raw": "\n".join(_problem_message(problem) for problem in error.problems)}


def _problem_message(problem: FileProblem) -> str:
    position = f"line {problem.line}, column {problem.column}: " if problem.line else ""
    return f"{position}{problem.field}: {problem.what}" if problem.field else f"{position}{problem.what}"


def review_case(evalset: EvalSet, base: FormBase, parse: Callable[[Json], CaseAndErrors]) -> CaseReview:
    """Return the change that a form would make to the present file. Nothing is written.

    Raises:
        NotFound: the file does not exist, or its text at the time the form was opened is not stored.
        BadFile: the file is invalid, or would be with this case.
        BadInput: the file cannot be edited in place.
    """
    original = base_case(evalset, base)
    case, errors = parse(original)
    if errors:
        return CaseReview(case, errors)
    file = file_changes.read_evalset_file(evalset)
    if base.is_new:
        change = file_changes.plan_change(evalset, partial(edits.append_case, case=case), file)
        return CaseReview(case, change=change)
    present_cases = [case_json(present) for present in file.content.cases]
    index = edits.find_case_index(present_cases, original.get("eval_id"), base.place)
    edit: Edit = partial(edits.append_case, case=case)
    if index is not None:
        edit = partial(edits.replace_case, index=index, case=case)
    return CaseReview(
        case,
        change=file_changes.plan_change(evalset, edit, file),
        is_file_changed=text_digest(file.text) != base.digest,
        is_case_changed=index is None or not is_same_json(present_cases[index], original),
    )


def save_reviewed(change: EvalsetChange, mark: str, origin: str = "page") -> EvalSet | None:
    """Write a change if `mark` is that of the change that the user has reviewed, else return None.

    Raises:
        NotFound: the file does not exist.
        BadInput: it cannot be written.
    """
    if change.mark != mark:
        return None
    try:
        return file_changes.save_change(change, origin)
    except FileChanged:
        return None


def copy_form(case: Json, taken_ids: set[str]) -> Nested:
    """Return the form data of a copy of a case, with an id that is free."""
    return {**case_form_data(case), "case_id": edits.free_id(str(case.get("eval_id") or "case"), taken_ids)}


def _find_version_cases(evalset: EvalSet, digest: str) -> list[Json]:
    """Return the cases that the file had when its text had this digest.

    Raises:
        NotFound: that version is not stored.
    """
    version = evalset.versions.filter(digest=digest).first()
    if version is None:
        raise NotFound(
            "The version of the file that this form was opened on is not stored.",
            hint="Copy your edits, then open the case again.",
        )
    cases: list[Json] = json.loads(version.content)["eval_cases"]
    return cases


def case_index(evalset: EvalSet, case_id: str, at: str = "") -> int:
    """Return the index of a case. Of several cases with the id, return the one at `at`, else the first.

    Raises:
        NotFound: no case has this id.
    """
    cases = [{"eval_id": case["id"]} for case in library.case_summaries(evalset)]
    index = edits.find_case_index(cases, case_id, parse_number(at))
    if index is None:
        raise NotFound(
            f"Evalset {evalset.evalset_id!r} has no case {case_id!r}.", hint="Its page lists the cases."
        )
    return index


def diff_texts(before: str, after: str) -> list[value_diff.DiffLine]:
    """Return the lines in which two texts of a file differ, with their context."""
    old, new = before.splitlines(), after.splitlines()
    start = max(_common_length(old, new) - value_diff.CONTEXT_LINES, 0)
    end = max(_common_length(old[start:][::-1], new[start:][::-1]) - value_diff.CONTEXT_LINES, 0)
    parts = (lines[start : len(lines) - end] for lines in (old, new))
    diff = value_diff.diff_lines(*(json.dumps("\n".join(part)) if part else None for part in parts))
    if not diff and before != after:
        return [value_diff.DiffLine("skipped", "Only the ends of lines change.")]
    return diff


def _common_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the number of lines with which both texts begin."""
    pairs = enumerate(zip_longest(first, second))
    return next((index for index, (line, other) in pairs if line != other), len(first))
