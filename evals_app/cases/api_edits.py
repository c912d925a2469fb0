"""Cases as programs change them: each at once, and only over what the program has seen, when it says what that was."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar

from evals_app.cases import adk_edits, edits
from evals_app.cases.edits import free_id, require_free_id
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
    """A case of a file, and what tells it from what it said before: its `ETag`."""

    case: Json
    etag: str

    @classmethod
    def of(cls, case: Json) -> TaggedCase:
        """Return a case with its tag, which hangs on what it says and not on how its file spells it."""
        body = json.dumps(case, sort_keys=True)
        return cls(case, f'"{sha256(body.encode()).hexdigest()[:32]}"')


class CaseChanged(DevUIError):
    """A case is not the one that a program has seen; nothing was written. `errors` tells both."""

    status: ClassVar[int] = 409
    code: ClassVar[str] = "case_changed"

    def __init__(self, evalset: EvalSet, etag: str, now: TaggedCase) -> None:
        name = now.case["eval_id"]
        super().__init__(
            f"Case {name!r} of {evalset.path} was changed since it had the ETag {etag}; nothing was written.",
            hint="Lay your change over `case`, and send it with If-Match `etag`.",
        )
        self.errors = {"message": self.message, "if_match": etag, "etag": now.etag, "case": now.case}


class BadCase(BadFile):
    """What was sent makes no case. `errors` lists file (`case`), case, field, line and column of each fault."""

    def __init__(self, refused: BadFile) -> None:
        super().__init__(
            refused.problems, hint="Send ADK's EvalCase; line and column count in the body as it was sent."
        )
        self.errors = self.as_json()


def parse_body(text: str) -> Json:
    """Return the case that a JSON text says, in either spelling of ADK's.

    Raises:
        BadCase: it says none.
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
    """Return a case; of several of one id the first.

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
    return _written_case(file_changes.edit_file(evalset, edits.append_case(case), ORIGIN), -1)


def put_case(evalset: EvalSet, case_id: str, case: Json, etag: str | None) -> TaggedCase:
    """Put a case in the place of another, whose id it may change. `seen` None: whatever that says.

    Raises:
        NotFound: the evalset has no such case.
        CaseChanged: that does not say what was seen.
        IdTaken: another case has the new id.
        BadInput: the file cannot be changed.
    """
    place = 0

    def edit(sheet: Sheet) -> None:
        nonlocal place
        place = _require_case(sheet, evalset, case_id, etag)
        require_free_id(sheet, case, place)
        sheet.cases[place] = case

    return _written_case(file_changes.edit_file(evalset, edit, ORIGIN), place)


def remove_case(evalset: EvalSet, case_id: str, etag: str | None) -> None:
    """Remove a case. `seen` None: whatever it says.

    Raises:
        NotFound: the evalset has no such case.
        CaseChanged: it does not say what was seen.
        BadInput: the file cannot be changed.
    """

    def edit(sheet: Sheet) -> None:
        del sheet.cases[_require_case(sheet, evalset, case_id, etag)]

    file_changes.edit_file(evalset, edit, ORIGIN)


def duplicate_case(evalset: EvalSet, case_id: str, new_id: str) -> TaggedCase:
    """Add a copy of a case at the end, under an id, or (empty) under one that is free.

    Raises:
        NotFound: the evalset has no such case.
        IdTaken: another case has the id.
        BadInput: the file cannot be changed.
    """

    def edit(sheet: Sheet) -> None:
        source = sheet.cases[adk_edits.case_index(sheet, evalset, case_id)]
        ids = {str(one["eval_id"]) for one in sheet.cases}
        copy = {**source, "eval_id": new_id or free_id(case_id, ids)}
        require_free_id(sheet, copy, None)
        sheet.cases.append(copy)

    return _written_case(file_changes.edit_file(evalset, edit, ORIGIN), -1)


def _require_case(sheet: Sheet, evalset: EvalSet, case_id: str, etag: str | None) -> int:
    place = adk_edits.case_index(sheet, evalset, case_id)
    now = TaggedCase.of(sheet.cases[place])
    if etag is not None and etag != now.etag:
        raise CaseChanged(evalset, etag, now)
    return place


def _written_case(change: EvalsetChange, place: int) -> TaggedCase:
    """Return a case as a change has written it."""
    return TaggedCase.of(case_json(change.will_be.content.cases[place]))
