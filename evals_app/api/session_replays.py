"""REST API of session replays: a run of a session's user messages, in a realm of its own."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema
from ninja.responses import Status
from pydantic import ConfigDict, Field

from evals_app.api.run_actions import accepted_response
from evals_app.cases import session_cases
from evals_app.runs import dispatch
from evals_app.runs.replayed_sessions import order_replay
from sessions_app.api.schemas import REFUSALS
from sessions_app.lookup import find_session
from sessions_app.store import units_of_work

router = Router(tags=["evals"])
"""Mounted by the package."""


class ReplayIn(Schema):
    """Session to replay, and the parts that come from its recording."""

    model_config = ConfigDict(extra="forbid")

    session: int = Field(description="The session's key, as /api/v1/sessions returns it.")
    models: str = Field(default="live", description="live or recorded.")
    tools: str = Field(default="recorded", description="live, recorded, or fail: a call ends the attempt.")


@router.post("/replays", response={202: dict[str, Any], **REFUSALS})
async def replay_session(request: HttpRequest, body: ReplayIn) -> Status[dict[str, Any]]:
    """Replay a session: send its user messages to the current agent, from the session's initial state."""
    session = await units_of_work.read(find_session, body.session)
    conversation = await session_cases.fetch_conversation(session)
    run = await dispatch.create_and_deliver(
        partial(order_replay, session, conversation, body.models, body.tools)
    )
    return await accepted_response(run)
