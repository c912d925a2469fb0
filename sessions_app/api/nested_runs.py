"""DevUI's API for nested runs."""

from __future__ import annotations

import json
from typing import Any, Self

from django.http import HttpRequest
from ninja import P, QueryEx, Router, Schema
from pydantic import Field

from sessions_app.api.schemas import COST, CostOut, Older, PageSize, Problem, RowSchema
from sessions_app.lookup import find_session
from sessions_app.store.database import pagination, units_of_work
from sessions_app.store.models import NestedRun
from sessions_app.timeline.nested_runs import cost_of_run, events_of, find_nested_run

router = Router(tags=["sessions"])

ERRORS = {400: Problem, 404: Problem, 422: Problem}
RUNS = "/sessions/{int:session}/nested-runs"


class NestedRunOut(RowSchema):
    """A run of an agent that is used as a tool, inside a call."""

    id: int
    ref: str = Field(description="ADK's id of the nested invocation.")
    parent_ref: str = Field(
        description="`ref` of the nested run with the call; empty: the session's own events have it."
    )
    seq: int | None = Field(
        description="Number of the session's event with the outermost call; null: not stored yet."
    )
    invocation_id: str = Field(description="Invocation of the session.")
    call_id: str = Field(description="Id of the function call that started the run.")
    agent: str
    started_at: float
    finished_at: float | None
    error: str = Field(description="Why it failed or was cut off; empty: it did not.")
    event_count: int
    stored_count: int = Field(
        description="Number of its events that are stored; the others exceeded the limits."
    )
    total_tokens: int = Field(description="Tokens of its own model calls.")
    cost: CostOut | None = COST
    state: dict[str, Any] = Field(
        description="State at its start, without credentials; long values are shortened."
    )
    state_omitted: int = Field(description="Number of keys that `state` leaves out.")

    @classmethod
    def of(cls, row: NestedRun) -> Self:
        """Return the schema of a row."""
        return cls.from_row(row, state=json.loads(row.state), cost=CostOut.of(cost_of_run(row)))


class NestedRunPage(Schema):
    """Nested runs of a session, newest first."""

    items: list[NestedRunOut]
    next: str


class NestedEventOut(Schema):
    """An event of a nested run."""

    number: int = Field(description="Number within the run, from 1.")
    event: dict[str, Any] = Field(description="The event as ADK's REST spells events, without credentials.")


class NestedEventPage(Schema):
    """Events of a nested run, in order."""

    items: list[NestedEventOut]
    cursor: int = Field(description="Number of the last event; pass it as `after` for the next page.")


@router.get(RUNS, response={200: NestedRunPage, **ERRORS})
async def list_nested_runs(
    request: HttpRequest,
    session: int,
    event: QueryEx[int | None, P(description="Only runs inside the event of this number.")] = None,
    limit: PageSize = 50,
    before: Older = "",
) -> NestedRunPage:
    """List the nested runs of a session, newest first."""
    return await units_of_work.read(_run_page, session, event, limit, before)


@router.get(RUNS + "/{int:run}/events", response={200: NestedEventPage, **ERRORS})
async def list_nested_events(
    request: HttpRequest,
    session: int,
    run: int,
    after: QueryEx[int, P(ge=0, description="The `cursor` of the page before.")] = 0,
    limit: QueryEx[int, P(ge=1, le=500)] = 100,
) -> NestedEventPage:
    """Return the events of a nested run after a cursor, in order."""
    return await units_of_work.read(_event_page, session, run, after, limit)


def _run_page(session: int, event: int | None, limit: int, before: str) -> NestedRunPage:
    rows = NestedRun.objects.filter(session=find_session(session))
    if event is not None:
        rows = rows.filter(seq=event)
    page = pagination.paginate(rows, "started_at", before, size=limit)
    return NestedRunPage(items=[NestedRunOut.of(row) for row in page.rows], next=page.older)


def _event_page(session: int, run: int, after: int, limit: int) -> NestedEventPage:
    rows = events_of(find_nested_run(find_session(session), run)).filter(number__gt=after)[:limit]
    items = [NestedEventOut(number=row.number, event=json.loads(row.data)) for row in rows]
    return NestedEventPage(items=items, cursor=items[-1].number if items else after)
