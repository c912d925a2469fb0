"""Edits of cases through DevUI's API. Edits with an ETag require that the case has not changed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, ClassVar

from evals_app.cases import adk_edits, edits
from evals_app.files import BadFile, file_changes
from evals_app.files.editing import Sheet, case_json
from evals_app.files.file_changes import EvalsetChange
from evals_app.files.parsing import parse_case
from evals_app.models import EvalSet
from sessions_app.errors import DevUIError

Json = dict[str, Any]

ORIGIN = "api"


@dataclass(frozen=True)
class TaggedCase:
    """Case with its `ETag`."""

    case: Json
    etag: str

    @classmethod
    def of(cls, case: Json) -> TaggedCase:
        """Return a case with its tag, which does not depend on the spelling in the file."""
        body = json.dumps(case, sort_keys=True)
        return cls(case, f'"{sha256(body.encode()).hexdigest()[:32]}"')


class CaseChanged(DevUIError):
    """The case has another ETag; nothing was written. `errors` has both ETags and the case."""

    status: ClassVar[int] = 409
    code: ClassVar[str] = "case_changed"

    def __init__(self, evalset: EvalSet, etag: str, now: TaggedCase) -> None:
        name = now.case["eval_id"]
        super().__init__(
            f"Case {name!r} of {evalset.path} was changed since it had the ETag {etag}; nothing was written.",
            hint="Apply your change to `case` and send it with If-Match `etag`.",
        )
        self.errors = {"message": self.message, "if_match": etag, "etag": now.etag, "case": now.case}


class BadCase(BadFile):
    """The body is no valid case. `errors` lists file (`case`), case, field, line and column of each problem."""

    def __init__(self, refused: BadFile) -> None:
        super().__init__(
            refused.problems, hint="Send ADK's EvalCase; line and column count in the body as it was sent."
        )
        self.errors = self.as_json()


def parse_body(text: str) -> Json:
    """Parse a case from JSON in snake case or camel case.

    Raises:
        BadCase: the text is no valid case.
    """
    try:
        return case_json(parse_case(text, strict=True))
    except BadFile as error:
        raise BadCase(error) from error


def list_cases(evalset: EvalSet) -> list[TaggedCase]:
    """Return the cases of an evalset's file, in their order.

    Raises:
        BadFile: the file cannot be used.
    """
    return [TaggedCase.of(case_json(case)) for case in file_changes.read_cases(evalset)]


def get_case(evalset: EvalSet, case_id: str) -> TaggedCase:
    """Return the first case with an id.

    Raises:
        NotFound: the evalset has no such case.
        BadFile: the file cannot be used.
    """
    return TaggedCase.of(case_json(adk_edits.find_case(evalset, case_id)))


def add_case(evalset: EvalSet, case: Json) -> TaggedCase:
    """Add a case at the end of an evalset's file.

    Raises:
        IdTaken: another case has its id.
        BadInput: the file cannot be changed.
    """
    return _written_case(file_changes.edit_file(evalset, partial(edits.append_case, case=case), ORIGIN), -1)


def put_case(evalset: EvalSet, case_id: str, case: Json, etag: str | None) -> TaggedCase:
    """Replace a case, possibly with another id. `etag` None skips the check.

    Raises:
        NotFound: the evalset has no such case.
        CaseChanged: the case has another ETag.
        IdTaken: another case has the new id.
        BadInput: the file cannot be changed.
    """
    place = 0

    def edit(sheet: Sheet) -> None:
        nonlocal place
        place = _require_case(sheet, evalset, case_id, etag)
        edits.replace_case(sheet, place, case)

    return _written_case(file_changes.edit_file(evalset, edit, ORIGIN), place)


def remove_case(evalset: EvalSet, case_id: str, etag: str | None = None) -> None:
    """Remove a case. `etag` None skips the check.

    Raises:
        NotFound: the evalset has no such case.
        CaseChanged: the case has another ETag.
        BadInput: the file cannot be changed.
    """

    def edit(sheet: Sheet) -> None:
        del sheet.cases[_require_case(sheet, evalset, case_id, etag)]

    file_changes.edit_file(evalset, edit, ORIGIN)


def duplicate_case(evalset: EvalSet, case_id: str, new_id: str) -> TaggedCase:
    """Append a copy of a case with a new id, or with a free one if `new_id` is empty.

    Raises:
        NotFound: the evalset has no such case.
        IdTaken: another case has the id.
        BadInput: the file cannot be changed.
    """

    def edit(sheet: Sheet) -> None:
        source = sheet.cases[adk_edits.case_index(sheet, evalset, case_id)]
        ids = {str(one["eval_id"]) for one in sheet.cases}
        edits.append_case(sheet, {**source, "eval_id": new_id or edits.free_id(case_id, ids)})

    return _written_case(file_changes.edit_file(evalset, edit, ORIGIN), -1)


def _require_case(sheet: Sheet, evalset: EvalSet, case_id: str, etag: str | None) -> int:
    place = adk_edits.case_index(sheet, evalset, case_id)
    now = TaggedCase.of(sheet.cases[place])
    if etag is not None and etag != now.etag:
        raise CaseChanged(evalset, etag, now)
    return place


def _written_case(change: EvalsetChange, place: int) -> TaggedCase:
    """Return a case of a written change."""
    return TaggedCase.of(case_json(change.will_be.content.cases[place]))
