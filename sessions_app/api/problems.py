"""DevUI's API for the problems of sessions. `schemas.ErrorBody` is another thing: the body of error responses."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from ninja import P, QueryEx, Schema
from pydantic import Field

from sessions_app.api.routing import Router
from sessions_app.api.schemas import NULL_IF_EMPTY, ErrorBody
from sessions_app.lookup import find_session
from sessions_app.problems import DetectorScope, Severity, problem_queries
from sessions_app.store.database import units_of_work

router = Router(tags=["sessions"])


class EvidenceLink(Schema):
    """A link to a piece of evidence."""

    kind: str = Field(description="event, nested, request, trace, run or log.")
    target: str | int = Field(
        description="Number of the event, or key of the model call, trace, run or log record. Event 0: the session."
    )
    label: str
    session: Annotated[int | None, NULL_IF_EMPTY] = Field(
        description="Key of another session that has the event; null: this session, or it was deleted."
    )
    session_id: str = Field(description="Id of the other session; empty: this session.")


class SessionProblemOut(Schema):
    """A fact about what went wrong, or a hint about the state, with evidence and a remedy."""

    code: str = Field(
        validation_alias="row.code",
        description="Code of the kind of problem, such as `tool-error`.",
    )
    scope: DetectorScope = Field(
        validation_alias="row.scope", description="What was checked: an invocation, or the current state."
    )
    severity: Severity = Field(
        validation_alias="row.severity",
        description="Notes may explain an answer, but are not counted.",
    )
    title: str = Field(validation_alias="detector.title")
    key: str = Field(
        validation_alias="row.key", description="State key that it is about, with its prefix; may be empty."
    )
    text: str = Field(
        validation_alias="row.text",
        description="Completes a sentence that begins with the key, if there is one.",
    )
    remedy: str = Field(validation_alias="detector.remedy", description="What you can do about it.")
    invocation: str = Field(
        validation_alias="row.invocation_id", description="Empty: the session as a whole."
    )
    seq: Annotated[int | None, NULL_IF_EMPTY] = Field(
        validation_alias="row.seq",
        description="Number of the event; null: the invocation as a whole.",
    )
    agent: str = Field(validation_alias="row.agent")
    evidence: list[EvidenceLink] = Field(validation_alias="links")
    more: int = Field(
        validation_alias="row.more",
        description="Number of further problems like it, in the invocation or the state.",
    )


class SessionProblemList(Schema):
    """Problems of a session: errors, then warnings and notes, each in the order of events; then those of its state."""

    problems: list[SessionProblemOut] = Field(validation_alias="all_rows")
    more: int = Field(description="Number of errors and warnings that are not listed.")
    unchecked: int = Field(description="Number of events that have not been checked yet.")
    state_sizes: dict[str, int] = Field(
        validation_alias="state_size.sizes", description="Bytes of the values of each scope, in UTF-8."
    )
    unchecked_keys: int = Field(
        validation_alias="state_size.unread",
        description="Number of state keys that are not checked, because there are too many.",
    )


@router.get(
    "/sessions/{int:session}/problems",
    response={200: SessionProblemList, 400: ErrorBody, 404: ErrorBody, 422: ErrorBody},
)
async def list_problems(
    request: HttpRequest,
    session: int,
    code: QueryEx[str, P(description="Only problems of this code.")] = "",
    invocation: QueryEx[str, P(description="Only problems of this invocation.")] = "",
    scope: QueryEx[
        DetectorScope | None, P(description="Only problems of invocations, or of the current state.")
    ] = None,
) -> SessionProblemList:
    """Return what went wrong in a session, and hints about its state, with evidence and remedies."""
    return await units_of_work.read(
        lambda: SessionProblemList.model_validate(
            problem_queries.read_problems(find_session(session), code, invocation, scope or "")
        )
    )


@router.get("/sessions/{int:session}/state/lint", include_in_schema=False)
async def redirect_lint(request: HttpRequest, session: int) -> HttpResponse:
    """Redirect the former path of the problems of the state."""
    return HttpResponseRedirect("../problems?scope=state")
