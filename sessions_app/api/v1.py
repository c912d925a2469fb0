"""DevUI's own API: sessions, events and runs; includes the routers of state, branches, traces and nested runs.

Sessions are identified by their primary key, since ids may hold any character. Lists are paginated by cursor, so every
page costs the same and nothing is skipped while rows are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import P, Query, QueryEx, Schema
from ninja.responses import Status
from pydantic import Field

from sessions_app import roles
from sessions_app.api import (
    branches,
    judgements,
    nested_runs,
    problems,
    session_actions,
    state,
    traces,
    trends,
)
from sessions_app.api.routing import Router, needs
from sessions_app.api.schemas import (
    REFUSALS,
    ErrorBody,
    EventPage,
    ExtendedRow,
    NewRun,
    Older,
    PageSize,
    RunOut,
    Runs,
    SessionOut,
    SessionPage,
)
from sessions_app.http import json_text, note_object, person_name
from sessions_app.lookup import find_run, find_session
from sessions_app.runs import dispatch, lifecycle
from sessions_app.runs.run_list import read_listed_spending
from sessions_app.runs.runtime_client import provider
from sessions_app.search.execution import session_queries
from sessions_app.search.query import parsing, terms
from sessions_app.sessions import labels, listing
from sessions_app.store import realms
from sessions_app.store.database import pagination, retry, units_of_work
from sessions_app.store.models import AgentSession, Event, Run
from sessions_app.traces.lost_toolsets import read_lost_toolsets

router = Router()
router.add_router("", problems.router)
router.add_router("", state.router)
router.add_router("", branches.router)
router.add_router("", session_actions.router)
router.add_router("", traces.router)
router.add_router("", trends.router)
router.add_router("", nested_runs.router)
router.add_router("", judgements.router)


class SessionFilters(Schema):
    """Ids that select the listed sessions."""

    app: str | None = None
    user: str | None = None
    session: str | None = Field(default=None, description="A session's id.")
    realm: str = Field(
        default="", description="Realm of an eval attempt, a fork or a nested run; empty: none."
    )

    def conditions(self) -> dict[str, str]:
        """Return the conditions on rows."""
        ids = {"realm": self.realm, "app_name": self.app, "user_id": self.user, "session_id": self.session}
        return {name: value for name, value in ids.items() if value is not None}


@router.get("/sessions", response={200: SessionPage, 400: ErrorBody, 422: ErrorBody}, tags=["sessions"])
async def list_sessions(
    request: HttpRequest,
    filters: Query[SessionFilters],
    q: QueryEx[str, P(description="A query as in the search box: docs/search.md.")] = "",
    limit: PageSize = 50,
    before: Older = "",
) -> SessionPage:
    """List sessions, newest update first."""
    return await units_of_work.read(_session_page, filters.conditions(), parsing.parse(q), limit, before)


@router.get("/sessions/{int:session}", response={200: SessionOut, **REFUSALS}, tags=["sessions"])
async def get_session(request: HttpRequest, session: int) -> SessionOut:
    """Return one session."""
    return await units_of_work.read(lambda: SessionOut.model_validate(find_session(session)))


@router.patch("/sessions/{int:session}", response={200: SessionOut, **REFUSALS}, tags=["sessions"])
@needs(patch=roles.LABEL)
async def change_session(
    request: HttpRequest, session: int, body: session_actions.SessionChange
) -> SessionOut:
    """Rename a session, tag it, pin it."""
    await units_of_work.write(partial(labels.change, session, person=person_name(request), **body.dict()))
    return await retry.read(lambda: SessionOut.model_validate(find_session(session)))


@router.get("/sessions/{int:session}/events", response={200: EventPage, **REFUSALS}, tags=["sessions"])
async def list_events(
    request: HttpRequest,
    session: int,
    after: QueryEx[int, P(ge=0, description="The `cursor` of the page before.")] = 0,
    limit: QueryEx[int, P(ge=1, le=2000)] = 200,
) -> HttpResponse:
    """Return a session's events after a cursor, in order."""
    return json_text(await units_of_work.read(_event_page, session, after, limit))


@router.get("/runs", response={200: Runs, 400: ErrorBody, 422: ErrorBody}, tags=["runs"])
async def list_runs(
    request: HttpRequest,
    session: QueryEx[int | None, P(description="Key of a session.")] = None,
    app: str | None = None,
    status: Run.Status | None = None,
    limit: PageSize = 50,
    before: Older = "",
) -> Runs:
    """List runs, newest first."""
    parameters = {"session__pk": session, "session__app_name": app, "status": status}
    filters = {name: value for name, value in parameters.items() if value is not None}
    return await units_of_work.read(_run_page, filters, limit, before)


@router.post(
    "/runs",
    response={
        202: RunOut,
        400: ErrorBody,
        404: ErrorBody,
        409: ErrorBody,
        422: ErrorBody,
        502: ErrorBody,
        503: ErrorBody,
    },
    tags=["runs"],
)
@needs(post=roles.RUN.with_app_field("session"))
async def create_run(request: HttpRequest, body: NewRun) -> Status[RunOut]:
    """Send a message to an agent. The run continues in the background; its events appear in the session."""
    note_object(request, body.session)
    run = await dispatch.start_run_now(body.session, body.request(), "api", person=person_name(request))
    note_object(request, body.session, run.pk)
    return Status(202, await retry.read(_read_run, run.id))


@router.get("/runs/{run_id}", response={200: RunOut, 404: ErrorBody}, tags=["runs"])
async def get_run(request: HttpRequest, run_id: str) -> RunOut:
    """Return one run."""
    return await units_of_work.read(_read_run, run_id)


@router.post(
    "/runs/{run_id}/cancel",
    response={200: RunOut, 404: ErrorBody, 502: ErrorBody, 503: ErrorBody},
    tags=["runs"],
)
@needs(post=roles.CANCEL)
async def cancel_run(request: HttpRequest, run_id: str) -> RunOut:
    """Cancel a run and return it. An ended run stays as it is."""
    run = await units_of_work.read(_read_run, run_id)
    if await units_of_work.write(lifecycle.request_cancel, run_id):
        client = await provider().client(run.app)
        await client.cancel_run(run_id)
    return await retry.read(_read_run, run_id)


def _session_page(filters: dict[str, Any], query: terms.Query, limit: int, before: str) -> SessionPage:
    matching = realms.exclude_hidden(
        AgentSession.objects.select_related("mirrored", "imported__source").filter(**filters)
    )
    if filters.get("realm"):
        matching = realms.exclude_inside_hidden(matching)
    if not query.is_empty:
        matching = session_queries.Search(query).filter_rows(matching)
    page = pagination.paginate(matching, pagination.Order("-updated_at"), before, size=limit)
    listing.read_tags(page.rows)
    listing.read_costs(page.rows)
    return SessionPage.model_validate(page)


def _event_page(session_key: int, after: int, limit: int) -> str:
    """Return an `EventPage` as JSON, joined from the stored JSON of the events."""
    session = find_session(session_key)
    events = Event.objects.filter(session_id=session.pk, seq__gt=after).order_by("seq")
    page = list(events.values_list("seq", "kind", "data")[: limit + 1])
    texts = [f'{{"seq":{seq},"kind":"{kind}","event":{data}}}' for seq, kind, data in page[:limit]]
    cursor = page[:limit][-1][0] if page else after
    more = "true" if len(page) > limit else "false"
    return f'{{"events":[{",".join(texts)}],"cursor":{cursor},"more":{more}}}'


def _read_run(run_id: str) -> RunOut:
    return RunOut.model_validate(_extend_runs([find_run(run_id)])[0])


def _run_page(filters: dict[str, Any], limit: int, before: str) -> Runs:
    matching = Run.objects.filter(session__realm="", **filters)
    runs = matching.select_related("session").defer("request", "traceback")
    page = pagination.paginate(runs, pagination.Order("-created_at"), before, size=limit)
    return Runs.model_validate({"runs": _extend_runs(page.rows), "next": page.next or None})


def _extend_runs(rows: Sequence[Run]) -> list[ExtendedRow]:
    """Return the runs with the attributes of `RunOut` that other tables have."""
    lost_toolsets = read_lost_toolsets([(row.session_id, row.invocation_id) for row in rows])
    spending = read_listed_spending(rows)
    return [
        ExtendedRow(
            row,
            lost_toolsets=lost_toolsets.get((row.session_id, row.invocation_id), []),
            tokens=spending[row.pk].tokens if row.pk in spending else None,
            cost=spending[row.pk].cost if row.pk in spending else None,
        )
        for row in rows
    ]
