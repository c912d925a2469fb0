"""DevUI's API for rewinding, forking and comparing sessions."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import P, QueryEx, Router
from ninja.responses import Status

from sessions_app.api.branch_schemas import (
    BriefEvent,
    Comparison,
    ForkBody,
    KeyPairOut,
    Lineage,
    RewindBody,
    RewindOut,
    TurnOut,
    Was,
)
from sessions_app.api.schemas import Problem, SessionOut
from sessions_app.branches import session_comparison as comparing
from sessions_app.branches.fork import NewFork, fork
from sessions_app.branches.rewind import plan_rewind, rewind
from sessions_app.lookup import find_event, find_session
from sessions_app.models import AgentSession, Event
from sessions_app.sessions import lineage
from sessions_app.store import retry, units_of_work
from sessions_app.timeline.groups import InvocationGroup

router = Router(tags=["branches"])

ERRORS = {400: Problem, 404: Problem, 422: Problem}
CONFLICTS = {**ERRORS, 409: Problem}


@router.post("/sessions/{int:session}/rewind", response={200: RewindOut, **CONFLICTS})
async def rewind_session(request: HttpRequest, session: int, body: RewindBody) -> RewindOut:
    """Rewind a session to before an invocation by appending an event, as ADK does; `dry_run` returns only the plan.

    Session keys, including seeded ones, and session artifacts get their earlier values. `user:` and `app:` keys,
    `user:` artifacts, memory and external effects of tools are not undone; `stays` lists them.
    """
    where = {"invocation_id": body.before_invocation, "event_id": body.event_id}
    if body.dry_run:
        return await units_of_work.read(lambda: RewindOut.of(plan_rewind(find_session(session), **where)))
    plan, appended, record = await units_of_work.write(
        lambda: rewind(session, **where, revision=body.revision)
    )
    return RewindOut.of(plan, appended.seq, record.event_id)


@router.post("/sessions/{int:session}/fork", response={201: SessionOut, **CONFLICTS})
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
    return Status(201, await retry.read(SessionOut.of, new_session))


@router.get("/sessions/{int:session}/lineage", response={200: Lineage, **ERRORS})
async def get_lineage(request: HttpRequest, session: int) -> Lineage:
    """Return the event at which a session was forked, and the session's own forks, oldest first."""
    return await units_of_work.read(_read_lineage, session)


@router.get("/sessions/compare", response={200: Comparison, **ERRORS})
async def compare_sessions(
    request: HttpRequest,
    left: QueryEx[int, P(description="Key of a session.")],
    right: QueryEx[int, P(description="Key of the other one.")],
    left_at: QueryEx[
        str | None, P(description="Id or number of the left session's event for the state; default: now.")
    ] = None,
    right_at: QueryEx[
        str | None, P(description="Id or number of the right session's event for the state.")
    ] = None,
    left_after: QueryEx[int | None, P(ge=0, description="From the page before.")] = None,
    right_after: QueryEx[int | None, P(ge=0, description="From the page before.")] = None,
) -> Comparison:
    """Compare two sessions: number of common events, later events turn by turn, and differences in state."""
    return await units_of_work.read(_compare, left, right, (left_at, right_at), (left_after, right_after))


def _read_lineage(key: int) -> Lineage:
    session = find_session(key)
    origin = lineage.origin_of(session)
    source = None
    if origin is not None:
        source = {
            "key": session.forked_from_id,
            "app": origin.app,
            "user": origin.user,
            "session": origin.session,
            "realm": origin.realm,
            "seq": origin.seq,
            "event_id": origin.event_id,
        }
    return Lineage(forked_from=source, forks=[SessionOut.of(fork) for fork in lineage.forks_of(session)])


def _compare(
    left_key: int, right_key: int, at: tuple[str | None, str | None], after: tuple[int | None, int | None]
) -> Comparison:
    left, right = find_session(left_key), find_session(right_key)
    common = comparing.count_common_events(left, right)
    page = comparing.read_turns(left, right, *(common if seq is None else seq for seq in after))
    differing = comparing.state_difference(
        left, right, _event_or_none(left, at[0]), _event_or_none(right, at[1])
    )
    return Comparison(
        left=SessionOut.of(left),
        right=SessionOut.of(right),
        common=common,
        turns=[
            TurnOut(left=_brief_events(turn.left), right=_brief_events(turn.right)) for turn in page.turns
        ],
        left_after=page.left.next,
        right_after=page.right.next,
        more=page.more,
        state=[
            KeyPairOut(key=pair.name, left=Was.of(pair.left), right=Was.of(pair.right))
            for pair in differing.keys
        ],
        state_same=differing.same,
    )


def _event_or_none(session: AgentSession, event_id: str | None) -> Event | None:
    return None if event_id is None else find_event(session, event_id=event_id)


def _brief_events(group: InvocationGroup | None) -> list[BriefEvent]:
    items = [item for row in group.rows for item in (row.head, *row.answers)] if group else []
    return [
        BriefEvent.from_row(item.event, time=item.event.timestamp, summary=item.summary)
        for item in sorted(items, key=lambda item: item.event.seq)
    ]
