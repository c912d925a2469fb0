"""DevUI's API for rewinding and forking sessions."""

from __future__ import annotations

from dataclasses import asdict

from django.http import HttpRequest
from ninja.responses import Status

from sessions_app import roles
from sessions_app.api.branch_schemas import ForkBody, Lineage, RewindBody, RewindOut
from sessions_app.api.routing import Router, needs
from sessions_app.api.schemas import REFUSALS, ExtendedRow, SessionOut
from sessions_app.branches.fork import NewFork, fork
from sessions_app.branches.rewind import plan_rewind, rewind
from sessions_app.branches.rewind_plan import RewindPlan
from sessions_app.http import person_name
from sessions_app.lookup import find_session
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.sessions import lineage

router = Router(tags=["branches"])


@router.post("/sessions/{int:session}/rewind", response={200: RewindOut, **REFUSALS})
@needs(post=roles.EDIT)
async def rewind_session(request: HttpRequest, session: int, body: RewindBody) -> RewindOut:
    """Rewind a session to before an invocation by appending an event, as ADK does; `dry_run` returns only the plan.

    Session keys, including seeded ones, and session artifacts get their earlier values. `user:` and `app:` keys,
    `user:` artifacts, memory and external effects of tools are not undone; `stays` lists them.
    """
    where = {"invocation_id": body.before_invocation, "event_id": body.event_id}
    if body.dry_run:
        return _rewind_out(await units_of_work.read(lambda: plan_rewind(find_session(session), **where)))
    plan, appended, record = await units_of_work.write(
        lambda: rewind(session, **where, revision=body.revision, person=person_name(request))
    )
    return _rewind_out(plan, appended.seq, record.event_id)


@router.post("/sessions/{int:session}/fork", response={201: SessionOut, **REFUSALS})
@needs(post=roles.CREATE.with_target_app_field("app"))
async def fork_session(request: HttpRequest, session: int, body: ForkBody) -> Status[SessionOut]:
    """Create a session with this session's events up to one of them; this session stays unchanged."""
    new_fork = NewFork(
        event_id=body.event_id,
        seq=body.seq,
        app_name=body.app,
        user_id=body.user,
        session_id=body.id,
        title=body.title,
        own_realm=body.own_realm,
    )
    new_session = await units_of_work.run_batched(fork, session, new_fork)
    return Status(201, await retry.read(SessionOut.model_validate, new_session))


@router.get("/sessions/{int:session}/lineage", response={200: Lineage, **REFUSALS})
async def get_lineage(request: HttpRequest, session: int) -> Lineage:
    """Return the event at which a session was forked, and the session's own forks, oldest first."""
    return await units_of_work.read(_read_lineage, session)


def _rewind_out(plan: RewindPlan, seq: int | None = None, event_id: str | None = None) -> RewindOut:
    """Return the schema of a plan and, if carried out, of the appended event."""
    return RewindOut.model_validate(ExtendedRow(plan, seq=seq, event_id=event_id))


def _read_lineage(key: int) -> Lineage:
    session = find_session(key)
    origin = lineage.read_origin(session)
    source = {"key": session.forked_from_id, **asdict(origin)} if origin else None
    forks = lineage.list_forks(session)
    return Lineage.model_validate({"forked_from": source, "forks": forks.sessions, "fork_count": forks.count})
