"""Edits of the cases in an evalset file. Each changes a `Sheet`; callers bind its other arguments."""

from __future__ import annotations

from typing import Any

from evals_app.files.editing import Sheet
from sessions_app.errors import AlreadyExists, BadInput, NotFound

Json = dict[str, Any]


class IdTaken(AlreadyExists, BadInput):
    """The evalset has another case with this id."""

    status = AlreadyExists.status
    code = AlreadyExists.code


def append_case(sheet: Sheet, case: Json) -> None:
    """Add a case at the end.

    Raises:
        IdTaken: another case has its id.
    """
    require_free_id(sheet, case, None)
    sheet.cases.append(case)


def append_cases(sheet: Sheet, cases: list[Json]) -> None:
    """Add cases at the end; a case whose id is taken gets a number."""
    ids = {str(case.get("eval_id")) for case in sheet.cases}
    for case in cases:
        name = free_id(str(case.get("eval_id")), ids)
        ids.add(name)
        sheet.cases.append({**case, "eval_id": name})


def replace_case(sheet: Sheet, index: int, case: Json) -> None:
    """Replace the case at `index`.

    Raises:
        IdTaken: another case has the new id.
    """
    require_free_id(sheet, case, index)
    sheet.cases[index] = case


def remove_case(sheet: Sheet, index: int, case_id: str) -> None:
    """Remove a case.

    Raises:
        NotFound: the case at `index` has another id.
    """
    _require_case_at(sheet, index, case_id)
    del sheet.cases[index]


def move_case(sheet: Sheet, index: int, case_id: str, to: int) -> None:
    """Move a case to the index `to`, or to the end when the list is shorter.

    Raises:
        NotFound: the case at `index` has another id.
    """
    _require_case_at(sheet, index, case_id)
    sheet.cases.insert(max(to, 0), sheet.cases.pop(index))


def describe_evalset(sheet: Sheet, name: str, description: str) -> None:
    """Set an evalset's name and description."""
    for field, text in (("name", name), ("description", description)):
        if text != (sheet.about.get(field) or ""):
            sheet.about[field] = text or None


def require_free_id(sheet: Sheet, case: Json, index: int | None) -> None:
    """Check that no other case has the case's id. A duplicate id that the case had before is allowed.

    Args:
        index: of the case that is replaced; None for a new case.

    Raises:
        IdTaken: another case has the id.
    """
    duplicates = [at for at, other in enumerate(sheet.cases) if other.get("eval_id") == case["eval_id"]]
    if duplicates and index not in duplicates:
        raise IdTaken(
            f"The evalset has a case {case['eval_id']!r} already.", hint="Give this case another id."
        )


def free_id(case_id: str, used_ids: set[str]) -> str:
    """Return `case_id`, with a number appended when it is in use."""
    if case_id not in used_ids:
        return case_id
    stem, dash, number = case_id.rpartition("-")
    base, at = (stem, int(number)) if dash and number.isdecimal() and len(number) < 8 else (case_id, 1)
    while f"{base}-{at + 1}" in used_ids:
        at += 1
    return f"{base}-{at + 1}"


def _require_case_at(sheet: Sheet, index: int, case_id: str) -> None:
    if index >= len(sheet.cases) or sheet.cases[index].get("eval_id") != case_id:
        raise NotFound(
            f"Case {case_id!r} is no longer at position {index + 1}.",
            hint="The file has changed: reload the evalset's page.",
        )
