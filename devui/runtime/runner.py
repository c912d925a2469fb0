"""ADK's `Runner` with a database row for every run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any

from google.adk.agents.live_request_queue import LiveRequestQueue
from google.adk.agents.run_config import RunConfig
from google.adk.events.event import Event
from google.adk.runners import Runner
from google.adk.sessions.session import Session
from google.genai import types
from typing_extensions import override

from devui.runtime._adk import StreamingMode
from devui.runtime.asgi_middleware import NORMAL_CLOSURE, hang_up, held_response, sender
from devui.runtime.run_queue import ActiveRun
from devui.runtime.runs import LocalRuns
from devui.runtime.sendable_events import to_sendable
from sessions_app.quotas.quota_limits import QuotaUsedUp
from sessions_app.runs import background, lifecycle
from sessions_app.runs.runtime_client import TRY_AGAIN_LATER, Sender
from sessions_app.sessions import storage_location
from sessions_app.store.errors import DevUIError
from sessions_app.store.ids import is_storable
from sessions_app.store.models import AgentSession, Run

RUN_CANCELLED = "The run was cancelled."
"""Reason with which a live socket is closed."""


class ManagedRunner(Runner):
    """A runner that stores each run as a row: queued per session, claimed, watched, ended.

    `run_async` and `run_live` behave as ADK's own and yield events that can be sent (`to_sendable`). Runs of the
    console use `run_queued`.
    """

    def __init__(self, *, runs: LocalRuns, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._runs = runs

    @override
    async def run_async(
        self,
        *,
        user_id: str,
        session_id: str,
        invocation_id: str | None = None,
        new_message: types.Content | None = None,
        state_delta: dict[str, Any] | None = None,
        run_config: RunConfig | None = None,
        yield_user_message: bool = False,
        abort_signal: asyncio.Event | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Run the agent as ADK does, with a row for the run."""
        abort = abort_signal or asyncio.Event()
        start = partial(
            super().run_async,
            user_id=user_id,
            session_id=session_id,
            invocation_id=invocation_id,
            new_message=new_message,
            state_delta=state_delta,
            run_config=run_config,
            yield_user_message=yield_user_message,
            abort_signal=abort,
        )
        request = {
            "new_message": _message_json(new_message),
            "streaming": bool(run_config and run_config.streaming_mode == StreamingMode.SSE),
            "state_delta": state_delta,
            "invocation_id": invocation_id,
        }
        async with aclosing(self._with_row(user_id, session_id, request, abort, start)) as events:
            async for event in events:
                yield to_sendable(event)

    @override
    async def run_live(
        self,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        live_request_queue: LiveRequestQueue,
        run_config: RunConfig | None = None,
        session: Session | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Run the agent in both directions as ADK does, with a row for the run.

        Cancelling the run closes the socket.
        """
        abort = asyncio.Event()
        start = partial(
            super().run_live,
            user_id=user_id,
            session_id=session_id,
            live_request_queue=live_request_queue,
            run_config=run_config,
            session=session,
        )
        session_ids = (session.user_id, session.id) if session else (user_id or "", session_id or "")
        try:
            async with aclosing(self._with_row(*session_ids, {"live": True}, abort, start)) as events:
                async for event in events:
                    yield to_sendable(event)
        finally:
            if abort.is_set():
                await hang_up.get()(RUN_CANCELLED, NORMAL_CLOSURE)

    async def run_queued(self, active: ActiveRun, request: dict[str, Any], run_config: RunConfig) -> None:
        """Execute a run that the console has queued. A failure is recorded and raised."""
        active.author = self.agent.name
        message = request.get("new_message")
        start = partial(
            super().run_async,
            user_id=active.session.user_id,
            session_id=active.session.session_id,
            invocation_id=request.get("invocation_id"),
            new_message=types.Content.model_validate(message) if message else None,
            state_delta=request.get("state_delta"),
            run_config=run_config,
            abort_signal=active.abort,
        )
        async with aclosing(self._runs.manage(active, start)) as events:
            async for _ in events:
                pass

    async def _with_row(
        self,
        user_id: str,
        session_id: str,
        request: dict[str, Any],
        abort: asyncio.Event,
        start: Any,
    ) -> AsyncGenerator[Event, None]:
        await self._runs.copy_session(self.app_name, user_id, session_id)
        session_key = self.app_name, user_id, session_id
        create = partial(_create_run, self._runs, *session_key, request, sender.get())
        held = held_response.get()
        try:
            run = await background.create_callers_row(create)
        except DevUIError as error:
            if held is not None:
                await held.refuse(error)
            if isinstance(error, QuotaUsedUp):
                await hang_up.get()(error.message, TRY_AGAIN_LATER)
            raise
        if held is not None:
            await held.release()
        if run is None:
            events = start()  # ADK itself reports the missing session
        else:
            active = self._runs.add_run(run, author=self.agent.name, abort=abort)
            events = self._runs.manage(active, start)
        async with aclosing(events):
            async for event in events:
                yield event


def _create_run(
    runs: LocalRuns,
    app_name: str,
    user_id: str,
    session_id: str,
    request: dict[str, Any],
    sender: Sender,
    run_id: str,
) -> Run | None:
    """Create the row of a run that a sender starts; None if the session does not exist.

    Raises:
        BadInput: the session is stored elsewhere than the run would look.
    """
    if not is_storable(user_id, session_id):
        return None
    session = (
        AgentSession.objects.select_related("mirrored")
        .filter(realm="", app_name=app_name, user_id=user_id, session_id=session_id.strip())
        .first()
    )
    if session is None:
        return None
    storage_location.require_same_service(session, runs.service_uri)
    run = lifecycle.create_run(
        session.pk,
        request,
        lifecycle.ADK_SOURCE,
        runs.runtime_id,
        person=sender.person,
        limits=sender.limits,
        run_id=run_id,
    )
    run.session = session
    return run


def _message_json(message: types.Content | None) -> dict[str, Any] | None:
    if message is None:
        return None
    return message.model_dump(mode="json", by_alias=True, exclude_none=True)
