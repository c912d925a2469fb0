"""REST API of an evalset's cases: read, add, change, copy and remove, in the spelling of its file.

A case has an `ETag`. With `If-Match`, a change of a case that has changed meanwhile is refused; the error contains the
current case.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Self, TypeVar, TypeVarTuple

from django.http import HttpRequest, HttpResponse
from ninja import BodyEx, HeaderEx, P, QueryEx, Router, Schema
from ninja.responses import Status
from pydantic import ConfigDict, Field

from evals_app.cases import api_edits
from evals_app.cases.api_edits import TaggedCase
from evals_app.files import file_changes
from evals_app.models import EvalSet
from sessions_app.api.schemas import REFUSALS
from sessions_app.ids import StorableText
from sessions_app.store import units_of_work

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

router = Router(tags=["evals"])
"""Mounted by the package."""

App = QueryEx[StorableText, P(description="The agent of the evalset.")]
Evalset = QueryEx[StorableText, P(description="The evalset's id.")]
CaseId = QueryEx[StorableText, P(description="The case's `eval_id`; the first case that has it.")]
IfMatch = HeaderEx[
    str | None,
    P(alias="If-Match", description="`ETag` of the case: refuse with 409 if the case has changed since."),
]
Sent = BodyEx[dict[str, Any], P(description="ADK's EvalCase, in either of its spellings.")]


class CaseOut(Schema):
    """A case of a file, in ADK's current format and snake case, whatever the format of the file."""

    id: str
    etag: str = Field(
        description="Changes with the content of the case; a condition for changes, as `If-Match`."
    )
    case: dict[str, Any]

    @classmethod
    def of(cls, tagged_case: TaggedCase) -> Self:
        """Return the API form of a case."""
        return cls(id=tagged_case.case["eval_id"], etag=tagged_case.etag, case=tagged_case.case)


class Copy(Schema):
    """The id of a copy."""

    model_config = ConfigDict(extra="forbid")

    id: StorableText = Field(default="", description="Empty: the id of the case with an unused number.")


@router.get("/cases", response={200: list[CaseOut], **REFUSALS})
async def list_cases(request: HttpRequest, app: App, evalset: Evalset) -> list[CaseOut]:
    """List an evalset's cases in full, in the order of its file."""
    return [
        CaseOut.of(tagged_case) for tagged_case in await call_with_evalset(app, evalset, api_edits.list_cases)
    ]


@router.post("/cases", response={201: CaseOut, **REFUSALS})
async def add_case(
    request: HttpRequest,
    response: HttpResponse,
    app: App,
    evalset: Evalset,
    case: Sent,
) -> Status[CaseOut]:
    """Add a case at the end of an evalset's file. 409 if another case has its id."""
    new_case = api_edits.parse_body(_text(request))
    return _case_response(response, 201, await call_with_evalset(app, evalset, api_edits.add_case, new_case))


@router.get("/case", response={200: CaseOut, **REFUSALS})
async def get_case(
    request: HttpRequest, response: HttpResponse, app: App, evalset: Evalset, id: CaseId
) -> Status[CaseOut]:
    """Return a case. Its `ETag` changes with its content."""
    return _case_response(response, 200, await call_with_evalset(app, evalset, api_edits.get_case, id))


@router.put("/case", response={200: CaseOut, **REFUSALS})
async def put_case(
    request: HttpRequest,
    response: HttpResponse,
    app: App,
    evalset: Evalset,
    id: CaseId,
    case: Sent,
    if_match: IfMatch = None,
) -> Status[CaseOut]:
    """Replace the case of this id; the body may have another id. Fields that the body lacks are removed.

    409 if another case has the new id, or if `If-Match` is not the case's `ETag`: `detail` has the current case.
    """
    new_case = api_edits.parse_body(_text(request))
    stored_case = await call_with_evalset(app, evalset, api_edits.put_case, id, new_case, if_match)
    return _case_response(response, 200, stored_case)


@router.delete("/case", response={204: None, **REFUSALS})
async def delete_case(
    request: HttpRequest, app: App, evalset: Evalset, id: CaseId, if_match: IfMatch = None
) -> Status[None]:
    """Remove a case from its file; its runs stay. 409 as for a change."""
    await call_with_evalset(app, evalset, api_edits.remove_case, id, if_match)
    return Status(204, None)


@router.post("/case/copy", response={201: CaseOut, **REFUSALS})
async def copy_case(
    request: HttpRequest, response: HttpResponse, app: App, evalset: Evalset, id: CaseId, body: Copy
) -> Status[CaseOut]:
    """Add a copy of a case at the end of its file. 409 if another case has the copy's id."""
    stored_case = await call_with_evalset(app, evalset, api_edits.duplicate_case, id, body.id)
    return _case_response(response, 201, stored_case)


async def call_with_evalset(
    app: str, evalset: str, function: Callable[[EvalSet, *Arguments], Result], *arguments: *Arguments
) -> Result:
    """Call a function with an evalset as its file is now."""
    return await units_of_work.write(lambda: function(file_changes.current_evalset(app, evalset), *arguments))


def _text(request: HttpRequest) -> str:
    """Return a JSON body as text: the lines and columns of problems refer to it."""
    return request.body.decode(json.detect_encoding(request.body))


def _case_response(response: HttpResponse, status: int, tagged_case: TaggedCase) -> Status[CaseOut]:
    response["ETag"] = tagged_case.etag
    return Status(status, CaseOut.of(tagged_case))
