"""Problems of a session: what went wrong, with evidence and remedy."""

from __future__ import annotations

from typing import Self

from django.http import HttpRequest
from ninja import P, QueryEx, Router, Schema
from pydantic import Field

from sessions_app.api.schemas import Problem
from sessions_app.lookup import find_session
from sessions_app.problems import Severity, problem_queries
from sessions_app.problems.problem_queries import SessionProblems, ShownProblem
from sessions_app.store import units_of_work

router = Router(tags=["sessions"])


class ProblemLink(Schema):
    """A piece of evidence."""

    kind: str = Field(description="event, request, trace or run.")
    target: str | int = Field(description="Number of the event, or key of the model call, trace or run.")
    label: str


class ProblemOut(Schema):
    """A problem that a detector found."""

    code: str
    severity: Severity
    title: str
    text: str
    remedy: str
    invocation: str = Field(description="Empty: the session as a whole.")
    seq: int | None = Field(description="Number of the event; null: the invocation as a whole.")
    agent: str
    evidence: list[ProblemLink]
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
                ProblemLink(kind=link.kind, target=link.target, label=link.label) for link in problem.links
            ],
            more=row.more,
        )


class ProblemList(Schema):
    """Problems of a session: errors, then warnings and notes, each in the order of events."""

    problems: list[ProblemOut]
    more: int = Field(description="Number of errors and warnings that are not listed.")
    unchecked: int = Field(description="Number of events that were not checked yet.")

    @classmethod
    def of(cls, found: SessionProblems) -> Self:
        """Return the schema of the problems of a session."""
        return cls(
            problems=[ProblemOut.of(problem) for problem in found.rows],
            more=found.more,
            unchecked=found.unchecked,
        )


@router.get("/sessions/{int:session}/problems", response={200: ProblemList, 404: Problem, 422: Problem})
async def list_problems(
    request: HttpRequest,
    session: int,
    code: QueryEx[str, P(description="Only problems of this code.")] = "",
    invocation: QueryEx[str, P(description="Only problems of this invocation.")] = "",
) -> ProblemList:
    """Return what went wrong in a session, as facts with evidence and remedy."""
    return await units_of_work.read(
        lambda: ProblemList.of(problem_queries.problems_of(find_session(session), code, invocation))
    )
