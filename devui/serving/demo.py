"""Demo data: messages of a file, sent to the example agents in their real runtimes, and recorded eval runs."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from devui.serving.demo_runs import copy_demo_runs
from devui.serving.demo_times import move_sessions
from sessions_app.delivery.deliveries import deliveries
from sessions_app.runs import lifecycle
from sessions_app.runs.run_delivery import RunDelivery
from sessions_app.runs.runtime_client import RuntimeProvider
from sessions_app.sessions import storage_location
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, DevUIError
from sessions_app.store.models import AgentSession
from sessions_app.store.text_input import decode_text, read_file

RECORDING_DELAY_S = 2.0
"""Seconds after which the recorder has stored everything about the last run."""

log = logging.getLogger(__name__)


class DemoSession(BaseModel):
    """One session of the file: app, user, the messages of its turns, and how many days ago it is shown."""

    model_config = ConfigDict(extra="forbid")

    app: str
    user: str
    session_id: str
    turns: list[str]
    state: dict[str, Any] = {}
    streaming: bool = False
    days_ago: int = Field(default=0, ge=0, le=365)


def read_demo(path: str | Path) -> list[DemoSession]:
    """Read a file of demo sessions.

    Raises:
        BadInput: the file is missing or malformed.
    """
    try:
        return TypeAdapter(list[DemoSession]).validate_json(decode_text(read_file(Path(path))))
    except OSError as error:
        raise BadInput(
            f"The demo file {str(path)!r} cannot be read: {error.strerror}.",
            hint="Correct the path, or start without --demo.",
        ) from error
    except ValidationError as error:
        fault = error.errors()[0]
        where = "".join(f"{step}: " for step in fault["loc"])
        raise BadInput(
            f"The demo file {str(path)!r} cannot be read: {where}{fault['msg']}.",
            hint="See examples/demo.json.",
        ) from error
    except UnicodeDecodeError as error:
        raise BadInput(
            f"The demo file {str(path)!r} is not UTF-8 text (byte {error.start}).", hint="Save it as UTF-8."
        ) from error


async def fill_store(demo_file: Path, sessions: list[DemoSession], provider: RuntimeProvider) -> None:
    """Create the sessions of a demo file and copy the eval runs beside it, if the store is empty."""
    if await units_of_work.read(AgentSession.objects.exists):
        return
    await _play_sessions(sessions, provider)
    try:
        await copy_demo_runs(demo_file)
    except DevUIError as error:
        log.warning("The eval runs of the demo were skipped: %s %s", error.message, error.hint)


async def _play_sessions(sessions: list[DemoSession], provider: RuntimeProvider) -> None:
    """Create the sessions by running the agents, and move those with `days_ago` into the past.

    Sessions that another service owns are not moved: the next read would correct the copies.
    """
    days_ago: dict[int, int] = {}
    for session in sessions:
        try:
            days_ago[await _play_session(session, provider)] = session.days_ago
        except DevUIError as error:
            log.warning("Demo session %r was skipped: %s", session.session_id, error.message)
    earlier = {pk: day_count for pk, day_count in days_ago.items() if day_count}
    if earlier and not storage_location.find_session_owner():
        await asyncio.sleep(RECORDING_DELAY_S)
        await units_of_work.write(move_sessions, earlier)


async def _play_session(session: DemoSession, provider: RuntimeProvider) -> int:
    """Run the agent for each message; return the primary key of the session."""
    client = await provider.client(session.app)
    path = f"/apps/{quote(session.app, safe='')}/users/{quote(session.user, safe='')}/sessions"
    body = json.dumps({"sessionId": session.session_id, "state": session.state}).encode()
    async with client.open(
        "POST", path, headers={"Content-Type": "application/json"}, content=body
    ) as answer:
        await answer.aread()
        if not answer.is_success:
            raise BadInput(f"Agent {session.app!r} answered {answer.status_code} to a new session.")
    key = {"app_name": session.app, "user_id": session.user, "session_id": session.session_id}
    row = await units_of_work.read(AgentSession.objects.get, realm="", **key)
    for text in session.turns:
        message = {"role": "user", "parts": [{"text": text}]}
        request = {"new_message": message, "streaming": session.streaming}
        run = await units_of_work.write(lifecycle.create_run, row.pk, request, "demo")
        await deliveries.deliver(RunDelivery(session.app, run.pk, provider))
        async for _ in client.stream(run.pk):
            pass
    return row.pk
