"""Edits of the cases in an evalset file. Each changes a list of cases; callers bind its other arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sessions_app.store.errors import AlreadyExists, BadInput, NotFound

Json = dict[str, Any]


class IdTaken(AlreadyExists, BadInput):
    """The evalset has another case with this id."""

    status = AlreadyExists.status
    code = AlreadyExists.code


def append_case(cases: list[Json], case: Json) -> None:
    """Add a case at the end.

    Raises:
        IdTaken: another case has its id.
    """
    require_free_id(cases, case, None)
    cases.append(case)


def append_cases(cases: list[Json], new_cases: list[Json]) -> None:
    """Add cases at the end; a case whose id is taken gets a number."""
    ids = {str(case.get("eval_id")) for case in cases}
    for case in new_cases:
        name = free_id(str(case.get("eval_id")), ids)
        ids.add(name)
        cases.append({**case, "eval_id": name})


def replace_case(cases: list[Json], index: int, case: Json) -> None:
    """Replace the case at `index`.

    Raises:
        IdTaken: another case has the new id.
    """
    require_free_id(cases, case, index)
    cases[index] = case


def remove_case(cases: list[Json], case_id: str, hint: int | None) -> None:
    """Remove a case.

    Raises:
        NotFound: no case has this id.
    """
    index = find_case_index(cases, case_id, hint)
    if index is None:
        raise NotFound(f"There is no case {case_id!r}.", hint="Reload the evalset's page.")
    del cases[index]


def find_case_index(cases: Sequence[Json], case_id: Any, hint: int | None = None) -> int | None:
    """Return the index of a case: `hint` if the case there has the id, else the first that has; None if none has."""
    indexes = [index for index, case in enumerate(cases) if case.get("eval_id") == case_id]
    return hint if hint in indexes else next(iter(indexes), None)


def require_free_id(cases: list[Json], case: Json, index: int | None) -> None:
    """Check that no other case than the one at `index` has the case's id. None: the case is new.

    A duplicate id that the case had before is allowed.

    Raises:
        IdTaken: another case has the id.
    """
    duplicates = [position for position, other in enumerate(cases) if other.get("eval_id") == case["eval_id"]]
    if duplicates and index not in duplicates:
        raise IdTaken(
            f"The evalset has a case {case['eval_id']!r} already.", hint="Give this case another id."
        )


def free_id(case_id: str, used_ids: set[str]) -> str:
    """Return `case_id`, with a number appended when it is in use."""
    if case_id not in used_ids:
        return case_id
    stem, dash, number = case_id.rpartition("-")
    base, suffix = (stem, int(number)) if dash and number.isdecimal() and len(number) < 8 else (case_id, 1)
    while f"{base}-{suffix + 1}" in used_ids:
        suffix += 1
    return f"{base}-{suffix + 1}"
