"""Calls of single tools by a program."""

from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest
from ninja import Schema
from pydantic import ConfigDict, Field

from sessions_app import roles
from sessions_app.api.routing import Router, needs
from sessions_app.api.schemas import REFUSALS, ErrorBody
from sessions_app.runs.tool_calls import DEFAULT_LIMIT_S, MAX_LIMIT_S, call_tool, read_session
from sessions_app.store import scopes
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput

router = Router(tags=["apps"])


class ToolCallIn(Schema):
    """Arguments of a tool, and what the call runs with."""

    model_config = ConfigDict(extra="forbid")

    agent: str = Field(default="", description="The tool's agent; empty: the only one that has the tool.")
    args: dict[str, Any] = Field(default={}, description="Arguments by name.")
    state: dict[str, Any] = Field(default={}, description="State; its keys replace those of the session.")
    session: int | None = Field(
        default=None, description="Key of a session whose state, events and user the tool gets; null: none."
    )
    confirmation: Literal["", "confirmed", "rejected"] = Field(
        default="", description="Answer to a tool that asks for a confirmation; empty: none yet."
    )
    time_limit_s: float = Field(
        default=DEFAULT_LIMIT_S,
        ge=1,
        le=MAX_LIMIT_S,
        description="Seconds after which the call is cancelled.",
    )


@router.post(
    "/apps/{seg:app}/tools/{seg:tool}/call", response={200: dict[str, Any], **REFUSALS, 503: ErrorBody}
)
@needs(post=roles.CALL_TOOL)
async def call(request: HttpRequest, app: str, tool: str, body: ToolCallIn) -> dict[str, Any]:
    """Call a tool in its agent's process and return the outcome, which is not stored.

    Callbacks and plug-ins are not called. If the tool raises, `status` is `failed`, and `error` has the traceback; at
    the time limit it is `timed_out`. A caller that disconnects cancels the call.
    """
    values = body.dict(exclude={"session"}) | {"tool": tool}
    try:
        scopes.dump_storable(values)
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f"Arguments or state cannot be sent: {error}.",
            hint="Send JSON without NaN, lone surrogates or cycles.",
        ) from error
    if body.session is not None:
        values |= await units_of_work.read(read_session, body.session, app)
    return await call_tool(app, values)
