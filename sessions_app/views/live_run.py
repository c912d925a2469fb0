"""Page of a live run: the browser exchanges text and audio with an agent over ADK's `/run_live` socket."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode

from sessions_app.agents import remotes
from sessions_app.lookup import find_session
from sessions_app.paths import session_url
from sessions_app.runs import agent_loading
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, DevUIError
from sessions_app.store.models import AgentSession
from sessions_app.store.realms import refuse_read_only

PAGE = "devui/agents/live.html"


@dataclass(frozen=True, slots=True)
class LiveOption:
    """A parameter of ADK's `/run_live` that is off unless it is ticked."""

    name: str
    label: str


OPTIONS = (
    LiveOption("save_live_blob", "Keep what is said as artifacts, playable at their events"),
    LiveOption("proactive_audio", "The model may decide not to answer (proactive audio)"),
    LiveOption("enable_affective_dialog", "The model adapts to the tone of speech (affective dialog)"),
    LiveOption("enable_session_resumption", "Resume the model's session after an interruption"),
    LiveOption("explicit_vad_signal", "Report where speech starts and ends"),
)
"""Parameters of ADK's socket (`google/adk/cli/api_server.py`), beside the answer format."""


async def live(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the live page of a session.

    Load the agent if it was never loaded: only its process knows whether its model supports live runs. A remote server
    does not describe its models; if its ADK supports live runs, the agent itself accepts or refuses them.

    Raises:
        SessionMissing: no such session.
        BadInput: the session belongs to a realm, which ADK's socket does not find.
    """
    session = await units_of_work.read(find_session, pk)
    refuse_read_only(session)
    _refuse_private(session)
    remote = remotes.find_remote(session.app_name)
    problem: DevUIError | None = None
    if remote is not None:
        can_speak: bool | None = remote.has_live_runs
    else:
        can_speak, problem = await _check_can_speak(session.app_name)
    parameters = {"app_name": session.app_name, "user_id": session.user_id, "session_id": session.session_id}
    context = {
        "session": session,
        "name": session.name,
        "back": session_url(session),
        "problem": problem,
        "remote": remote,
        "can_speak": bool(can_speak),
        "options": OPTIONS,
        "socket": f"{reverse('home')}run_live?{urlencode(parameters)}",
    }
    return await units_of_work.read(render, request, PAGE, context)


async def _check_can_speak(app_name: str) -> tuple[bool | None, DevUIError | None]:
    """Return whether an agent supports live runs, loading it if needed; None with an error if unknown."""
    problem = None
    can_speak = await units_of_work.read(agent_loading.can_speak_live, app_name)
    if can_speak is None:
        problem = await agent_loading.try_to_load(app_name)
        can_speak = await units_of_work.read(agent_loading.can_speak_live, app_name)
    return can_speak, problem


def _refuse_private(session: AgentSession) -> None:
    if session.realm:
        raise BadInput(
            f"Session {session.session_id!r} is a fork with state of its own, which ADK's live socket does not find.",
            hint="Fork it with live shared state, or send it messages.",
        )
