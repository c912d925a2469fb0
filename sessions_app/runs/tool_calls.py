"""Calls of single tools by a person, in the process of their agent. Their session, state and result are not stored."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from sessions_app.runs.runtime_client import provider
from sessions_app.store import realms
from sessions_app.store.errors import NotFound, RuntimeUnavailable
from sessions_app.store.models import AgentSession

DEFAULT_LIMIT_S = 30.0
MAX_LIMIT_S = 300.0
"""Seconds that a call may take: unless a person says otherwise, and at most."""

GRACE_S = 10.0
"""Seconds after the time limit of a call in which its process has to answer. Otherwise something blocks it."""


class Notice(NamedTuple):
    """A sentence above an outcome: `mark` is info, warn or danger."""

    mark: str
    title: str
    text: str


STOPPED = Notice(
    "warn",
    "The tool did not return within the time limit and was cancelled.",
    "State and log up to then are below.",
)
GOES_ON = Notice(
    "danger",
    "The tool did not return within the time limit, and goes on although it was cancelled.",
    "Restart the agent to end it.",
)
CANCELLED = Notice("warn", "The call was cancelled.", "State and log up to then are below.")
ASKS_CONFIRMATION = Notice(
    "warn", "The tool asks for a confirmation.", "Choose an answer under Confirmation and call it again."
)
ASKS_SIGN_IN = Notice(
    "warn",
    "The tool asks for a sign-in, which is possible in a session only.",
    "Send a message to the agent that makes it call the tool, and sign in there.",
)
LONG_RUNNING = Notice(
    "info", "This is the first answer of a long-running tool.", "In a run, ADK waits for the final result."
)


async def call_tool(app_name: str, call: Mapping[str, Any]) -> dict[str, Any]:
    """Call a tool in the process of its app and return the outcome as JSON. If the caller leaves, it is cancelled.

    Args:
        app_name: the app, whose process is started if needed.
        call: the body of `POST /devui/tools/call` (`devui/runtime/tool_calls.py`).

    Raises:
        NotFound: there is no such app, agent, tool or session.
        BadInput: the arguments do not match the tool's schema, or the tool cannot be called by itself.
        RuntimeUnavailable: the process cannot be reached, does not answer, or was ended by the tool.
    """
    client = await provider().client(app_name)
    try:
        async with asyncio.timeout(call["time_limit_s"] + GRACE_S):
            outcome: dict[str, Any] = await client.call("POST", "/devui/tools/call", call)
            return outcome
    except TimeoutError as error:
        raise RuntimeUnavailable(
            f"{call['tool']} did not return within {call['time_limit_s']:g} s, and the process of agent {app_name!r}"
            " does not answer.",
            hint="Something blocks it, such as time.sleep in a tool: let tools wait with await or in a thread. A"
            " process that does not answer for a minute and executes no run is ended.",
        ) from error


def read_session(pk: int, app_name: str) -> dict[str, str]:
    """Return what a call names of the session whose state its tool reads.

    Raises:
        NotFound: the app has no such session.
    """
    session = AgentSession.objects.filter(pk=pk, app_name=app_name).first()
    if session is None or realms.is_hidden(session):
        raise NotFound(
            f"App {app_name!r} has no session {pk}.",
            hint="The number of a session is in the address of its page: /sessions/id/NUMBER/.",
        )
    return {"realm": session.realm, "user_id": session.user_id, "session_id": session.session_id}


def list_notices(outcome: Mapping[str, Any]) -> list[Notice]:
    """Return what a person has to know about the outcome of a call before its details."""
    notices = []
    if outcome["status"] == "timed_out":
        notices.append(STOPPED if outcome["has_stopped"] else GOES_ON)
    if outcome["status"] == "cancelled":
        notices.append(CANCELLED)
    if "requestedToolConfirmations" in outcome["actions"]:
        notices.append(ASKS_CONFIRMATION)
    if "requestedAuthConfigs" in outcome["actions"]:
        notices.append(ASKS_SIGN_IN)
    if outcome["is_long_running"] and outcome["status"] == "done":
        notices.append(LONG_RUNNING)
    return notices
