"""One run of an agent for a command: a message in, the stored events out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async

from devui.serving.local_agents import run_agents
from sessions_app.agents.folder import open_folder
from sessions_app.external import session_creation
from sessions_app.runs import dispatch
from sessions_app.store.database import retry
from sessions_app.store.database.change_listener import subscribe
from sessions_app.store.errors import BadInput
from sessions_app.store.models import AgentSession, Event, Run

SOURCE = "command"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """A message to an agent. `session_id`: id of the session to continue or create; empty: a new one."""

    agent_dir: str
    text: str
    user: str
    session_id: str = ""


async def run_message(message: Message, on_event: Callable[[Json], None]) -> Run:
    """Send a message, call `on_event` with each event that the run stores, and return the ended run.

    Cancelled, it cancels the run.

    Raises:
        BadInput: the folder is not that of one agent, or the message is empty.
        NotFound, AgentNotLoaded, RuntimeUnavailable: the agent cannot be run.
    """
    if not message.text.strip():
        raise BadInput("The message is empty.", hint="Write a question.")
    app_name = open_folder(message.agent_dir).single
    if app_name is None:
        raise BadInput(
            f"{message.agent_dir!r} is not the folder of one agent.",
            hint="Name the folder that has agent.py or root_agent.yaml.",
        )
    async with run_agents(message.agent_dir):
        session = await sync_to_async(_open_session)(app_name, message)
        content = {"role": "user", "parts": [{"text": message.text}]}
        run = await dispatch.start_run_now(session.pk, {"new_message": content}, SOURCE, person="")
        try:
            return await _follow_run(run, session.last_seq, on_event)
        except BaseException:
            await dispatch.cancel_run(run)
            raise


def _open_session(app_name: str, message: Message) -> AgentSession:
    """Return the session of a message, a new one unless it exists."""
    ids = {"app_name": app_name, "user_id": message.user, "session_id": message.session_id}
    present = AgentSession.objects.filter(realm="", **ids).first() if message.session_id else None
    return present or session_creation.open_session(
        app_name, message.user, message.session_id, {}, seeded=True, continued=False
    )


async def _follow_run(run: Run, after: int, on_event: Callable[[Json], None]) -> Run:
    async with subscribe() as changes:
        while True:
            current = await retry.read(Run.objects.select_related("session").get, pk=run.pk)
            events = await retry.read(partial(_read_events, current.session_id, after))
            for seq, data in events:
                after = seq
                on_event(json.loads(data))
            if current.status not in Run.ACTIVE:
                return current
            await changes.wait()


def _read_events(session_pk: int, after: int) -> list[tuple[int, str]]:
    rows = Event.objects.filter(session_id=session_pk, seq__gt=after).order_by("seq")
    return list(rows.values_list("seq", "data"))
