"""Demo sessions: messages of a file, sent to the example agents in their real runtimes."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from sessions_app.delivery.deliveries import deliveries
from sessions_app.runs import lifecycle
from sessions_app.runs.run_delivery import RunDelivery
from sessions_app.runs.runtime_client import RuntimeProvider
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, DevUIError
from sessions_app.store.models import AgentSession
from sessions_app.store.text_input import decode_text, read_file

log = logging.getLogger(__name__)


class DemoSession(BaseModel):
    """One session of the file: app, user, and the messages of its turns."""

    model_config = ConfigDict(extra="forbid")

    app: str
    user: str
    session_id: str
    turns: list[str]
    state: dict[str, Any] = {}
    streaming: bool = False


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


async def play_demo(sessions: list[DemoSession], provider: RuntimeProvider) -> None:
    """Create the sessions by running the agents, if the store is empty."""
    if await units_of_work.read(AgentSession.objects.exists):
        return
    for session in sessions:
        try:
            await _play_session(session, provider)
        except DevUIError as error:
            log.warning("Demo session %r was skipped: %s", session.session_id, error.message)


async def _play_session(session: DemoSession, provider: RuntimeProvider) -> None:
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
