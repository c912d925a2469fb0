"""DevUI's API for nested runs."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import P, QueryEx, Schema
from pydantic import Field

from sessions_app.api.routing import Router
from sessions_app.api.schemas import COST, REFUSALS, CostOut, Older, PageSize
from sessions_app.lookup import find_session
from sessions_app.prices.costs import Cost
from sessions_app.sessions import listing
from sessions_app.store import realms
from sessions_app.store.database import pagination, units_of_work
from sessions_app.store.models import NestedRun

router = Router(tags=["sessions"])


class NestedRunOut(Schema):
    """A run of an agent that is used as a tool, inside a call. Its session `child` has its events and its state."""

    id: int
    child: int = Field(
        validation_alias="child_id",
        description="Key of its session, for /sessions/{session}, its events and its state.",
    )
    ref: str = Field(
        validation_alias="child.session_id",
        description="ADK's id of the nested invocation, and of the session.",
    )
    session: int = Field(
        validation_alias="caller_id",
        description="Key of the session with the call; of a nested one, if the run is nested deeper.",
    )
    seq: int | None = Field(
        validation_alias="caller_seq", description="Number of the event with the call; null: not stored yet."
    )
    outer_seq: int | None = Field(
        description="Number of the event of the outer session; null: not stored yet."
    )
    invocation_id: str = Field(description="Invocation of the outer session.")
    call_id: str = Field(description="Id of the function call that started the run.")
    agent: str
    started_at: float
    finished_at: float | None
    error: str = Field(description="Why it failed or was cut off; empty: it did not.")
    event_count: int
    stored_count: int = Field(
        description="Number of its events that are stored; the others exceeded the limits."
    )
    total_tokens: int = Field(
        validation_alias="child.total_tokens", description="Tokens of its own model calls."
    )
    cost: CostOut | None = COST
    state_omitted: int = Field(description="Number of keys of the state at its start that are not stored.")

    @staticmethod
    def resolve_cost(row: NestedRun) -> Cost | None:
        """Return the cost of its own model calls."""
        return listing.session_cost(row.child)


class NestedRunPage(Schema):
    """Nested runs of a session, newest first."""

    items: list[NestedRunOut] = Field(validation_alias="rows")
    next: str


@router.get("/sessions/{int:session}/nested-runs", response={200: NestedRunPage, **REFUSALS})
async def list_nested_runs(
    request: HttpRequest,
    session: int,
    event: QueryEx[int | None, P(description="Only runs inside the event of this number.")] = None,
    limit: PageSize = 50,
    before: Older = "",
) -> NestedRunPage:
    """List the nested runs inside a session at all depths, newest first; of a nested session those that it called."""
    return await units_of_work.read(_run_page, session, event, limit, before)


def _run_page(session_pk: int, event: int | None, limit: int, before: str) -> NestedRunPage:
    session = find_session(session_pk)
    role, number = (
        ("caller", "caller_seq") if session.realm.startswith(realms.NESTED) else ("outer", "outer_seq")
    )
    rows = NestedRun.objects.filter(**{role: session}).select_related("child")
    if event is not None:
        rows = rows.filter(**{number: event})
    page = pagination.paginate(rows, pagination.Order("-started_at"), before, size=limit)
    listing.read_costs([row.child for row in page.rows])
    return NestedRunPage.model_validate(page)
