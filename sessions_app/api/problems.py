"""DevUI's API for the problems of sessions. `schemas.Problem` is another thing: the body of error responses."""

from __future__ import annotations

from typing import Self

from django.http import HttpRequest
from ninja import P, QueryEx, Router, Schema
from pydantic import Field

from sessions_app.api.schemas import Problem
from sessions_app.lookup import find_session
from sessions_app.problems import Severity, problem_queries
from sessions_app.problems.problem_queries import SessionProblems, ShownProblem
from sessions_app.store.database import units_of_work

router = Router(tags=["sessions"])


class EvidenceLink(Schema):
    """A link to a piece of evidence."""

    kind: str = Field(description="event, nested, request, trace, run or log.")
    target: str | int = Field(
        description="Number of the event, or key of the model call, trace, run or log record."
    )
    label: str


class SessionProblemOut(Schema):
    """A fact about what went wrong, with evidence and a remedy."""

    code: str = Field(description="Code of the kind of problem, such as `tool-error`.")
    severity: Severity = Field(description="Notes may explain an answer, but are not counted.")
    title: str
    text: str
    remedy: str = Field(description="What you can do about it.")
    invocation: str = Field(description="Empty: the session as a whole.")
    seq: int | None = Field(description="Number of the event; null: the invocation as a whole.")
    agent: str
    evidence: list[EvidenceLink]
    more: int = Field(description="Number of further problems like it in the invocation.")

    @classmethod
    def of(cls, problem: ShownProblem) -> Self:
        """Return the schema of a problem."""
        row, detector = problem.row, problem.detector
        return cls(
            code=row.code,
            severity=Severity(row.severity),
            title=detector.title,
            text=row.text,
            remedy=detector.remedy,
            invocation=row.invocation_id,
            seq=row.seq or None,
            agent=row.agent,
            evidence=[
                EvidenceLink(kind=link.kind, target=link.target, label=link.label) for link in problem.links
            ],
            more=row.more,
        )


class SessionProblemList(Schema):
    """Problems of a session: errors, then warnings and notes, each in the order of events."""

    problems: list[SessionProblemOut]
    more: int = Field(description="Number of errors and warnings that are not listed.")
    unchecked: int = Field(description="Number of events that have not been checked yet.")

    @classmethod
    def of(cls, problems: SessionProblems) -> Self:
        """Return the schema of the problems of a session."""
        return cls(
            problems=[SessionProblemOut.of(problem) for problem in problems.rows],
            more=problems.more,
            unchecked=problems.unchecked,
        )


@router.get(
    "/sessions/{int:session}/problems",
    response={200: SessionProblemList, 400: Problem, 404: Problem, 422: Problem},
)
async def list_problems(
    request: HttpRequest,
    session: int,
    code: QueryEx[str, P(description="Only problems of this code.")] = "",
    invocation: QueryEx[str, P(description="Only problems of this invocation.")] = "",
) -> SessionProblemList:
    """Return what went wrong in a session, with evidence and remedies."""
    return await units_of_work.read(
        lambda: SessionProblemList.of(problem_queries.problems_of(find_session(session), code, invocation))
    )
