"""The runs of this process: ADK's `Runner` executed in queue order, its events and its errors.

Every run has a row, whoever started it.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial

from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.session import Session
from typing_extensions import override

from devui.runtime.agent_loading import traceback_text
from devui.runtime.exception_text import safe_message, without_credentials
from devui.runtime.run_queue import ActiveRun, RunQueue, Status
from sessions_app.adk import DjangoSessionService, MirroredSessionService
from sessions_app.adk.prefetch import Prefetcher
from sessions_app.delivery.failure import Failure
from sessions_app.lookup import find_session
from sessions_app.runs import lifecycle
from sessions_app.runs.agent_exit import AgentExited
from sessions_app.sessions import storage_location
from sessions_app.store.database import retry
from sessions_app.store.errors import StoreFault
from sessions_app.store.models import AgentSession
from sessions_app.store.sessions.writes import AppendResult
from sessions_app.store.short_texts import truncate

MAX_MESSAGE = 10_000

log = logging.getLogger(__name__)

Events = AsyncGenerator[Event, None]


class AgentRaised(RuntimeError):
    """The agent's code raised a `BaseException` that is no `Exception`; its run failed."""


class LocalRuns(RunQueue):
    """The runs of this process."""

    def __init__(
        self,
        runtime_id: str,
        on_left: Callable[[], None],
        truth: BaseSessionService | None = None,
        service_uri: str = "",
    ) -> None:
        """Store sessions in DevUI's store, or in the service `truth` at `service_uri`, with copies here."""
        super().__init__(runtime_id, on_left)
        local = NotifyingSessionService(self)
        self.service = local if truth is None else MirroredSessionService(truth, service_uri, local)
        self.service_uri = service_uri

    def find_session_service(self, realm: str) -> BaseSessionService:
        """Return the session service of a realm."""
        return NotifyingSessionService(self, realm) if realm else self.service

    async def copy_session(self, app_name: str, user_id: str, session_id: str) -> None:
        """Copy a session that another service owns: runs need the row of their session."""
        if isinstance(self.service, MirroredSessionService):
            none = GetSessionConfig(num_recent_events=0)
            await self.service.get_session(
                app_name=app_name, user_id=user_id, session_id=session_id, config=none
            )

    async def check_storage_location(self, session: AgentSession) -> None:
        """Refuse a session outside realms that is stored elsewhere than this process stores its sessions.

        Raises:
            BadInput: the session is stored elsewhere.
        """
        if not session.realm:
            await self.copy_session(session.app_name, session.user_id, session.session_id)
            await retry.read(
                lambda: storage_location.require_same_service(find_session(session.pk), self.service_uri)
            )

    async def manage(self, active: ActiveRun, start: Callable[[], Events]) -> Events:
        """Yield the events of a run in its turn, and record its end.

        `start` is called after the run has been claimed. Exceptions of the agent are recorded and raised again.
        """
        active.task = asyncio.current_task()
        try:
            if not await self.take_turn(active):
                await self.release_unclaimed(active)
                return
            async with aclosing(start()) as events:
                async for event in _reject_own_cancellation(events):
                    self._note_streamed(active, event)
                    yield event
            await self.finish(active, await self.final_status(active))
        except (GeneratorExit, asyncio.CancelledError):
            await self.finish(active, Status.CANCELLED)
            raise
        except SystemExit as error:
            exited = AgentExited.of(error)
            await self.fail(active, exited)
            raise exited from error
        except Exception as error:
            await self.fail(active, error)
            if (redacted := without_credentials(error)) is not error:
                raise redacted from None
            raise
        except KeyboardInterrupt:
            raise  # Ctrl-C ends the process
        except BaseException as error:
            await self.fail(active, error)
            raise AgentRaised(f"The agent raised {type(error).__name__}: {safe_message(error)}") from error

    async def fail(self, active: ActiveRun, error: BaseException) -> None:
        """Record a failed run: an event in the session, unless ADK wrote one, then the row with the traceback.

        If the store has failed a run for whose response a caller waits, this happens in the background, as soon as
        the store accepts it.
        """
        recording = self._tasks.start(self._record_failure(active, error))
        if active.source != lifecycle.ADK_SOURCE or not isinstance(error, StoreFault):
            await asyncio.shield(recording)

    async def _record_failure(self, active: ActiveRun, error: BaseException) -> None:
        if active.abort.is_set():
            await self.finish(active, Status.CANCELLED)
            return
        message = truncate(safe_message(error), MAX_MESSAGE)
        try:
            if active.stored_error not in _error_codes(error):
                await self._store_failure(active, type(error).__name__, message)
        finally:
            failure = Failure(type(error).__name__, message, traceback_text(error))
            await self.finish(active, Status.FAILED, failure)

    async def fail_in_turn(self, active: ActiveRun, error: BaseException) -> None:
        """Record that a run could not start. Its event is written in its turn, as another run may own the session."""
        if await self.take_turn(active):
            await self.fail(active, error)
        else:
            await self.release_unclaimed(active)

    def note_event_stored(self, event: Event, appended: AppendResult) -> None:
        """Notify the readers of a session's run of a stored event, and record the run's invocation."""
        active = self.note_stored(
            appended.session_pk,
            appended.seq,
            event_id=event.id,
            author=event.author,
            branch=event.branch or "",
            invocation_id=event.invocation_id,
        )
        if active is not None and event.error_code:
            active.stored_error = event.error_code

    def _note_streamed(self, active: ActiveRun, event: Event) -> None:
        if event.author != "user":
            active.author = event.author
        if not event.partial or event.content is None:
            return
        for part in event.content.parts or []:
            if part.text:
                active.frames.publish(
                    "chunk",
                    author=event.author,
                    branch=event.branch or "",
                    invocation_id=event.invocation_id,
                    event_id=event.id,
                    text=part.text,
                    thought=bool(part.thought),
                )

    async def _store_failure(self, active: ActiveRun, code: str, message: str) -> None:
        """Append the failure to the session as soon as the store accepts it.

        An error of this write is only logged, so that it does not hide the failure itself.
        """
        active.invocation_id = (
            active.invocation_id or f"e-{uuid.uuid4()}"
        )  # the run failed before ADK created an invocation
        event = Event(
            author=active.author, invocation_id=active.invocation_id, error_code=code, error_message=message
        )
        try:
            await retry.run(partial(self._append_event, active, event))
        except Exception:
            log.exception("The failure of run %s could not be added to its session.", active.id)

    async def _append_event(self, active: ActiveRun, event: Event) -> None:
        """Append an event to a run's session, if it exists. An event that is stored already is not stored twice."""
        owner = {"app_name": active.session.app_name, "user_id": active.session.user_id}
        service = self.find_session_service(active.session.realm)
        session = await service.get_session(
            **owner, session_id=active.session.session_id, config=GetSessionConfig(num_recent_events=0)
        )
        if session is not None:
            await service.append_event(session, event)


class NotifyingSessionService(DjangoSessionService):
    """The session service of a runtime, which notifies the readers of a run of each stored event."""

    ends_waiting_runs = False  # the end of the run does
    waits_for_store = True

    def __init__(self, runs: LocalRuns, realm: str = "") -> None:
        super().__init__(realm, prefetcher=None if realm else Prefetcher())
        self._runs = runs

    @override
    def event_stored(self, session: Session, event: Event, appended: AppendResult) -> None:
        """Notify the readers of a stored event."""
        self._runs.note_event_stored(event, appended)


def _error_codes(error: BaseException) -> set[str]:
    """Return the codes under which ADK stores an error: the status of its API, else its class name.

    See `google/adk/workflow/_node_runner.py`.
    """
    status = getattr(error, "status", None)
    return {type(error).__name__, *([status] if isinstance(status, str) else [])}


async def _reject_own_cancellation(events: Events) -> Events:
    """Yield an agent's events; a cancellation that the agent itself raises becomes an error.

    Libraries raise one when a connection is lost. Closing this generator from outside happens only while it yields.

    Raises:
        AgentRaised: the agent raised `CancelledError` or `GeneratorExit`, but the run was not cancelled.
    """
    while True:
        try:
            event = await anext(events)
        except StopAsyncIteration:
            return
        except (GeneratorExit, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            name, message = type(error).__name__, safe_message(error)
            suffix = "" if message == name else f": {message}"
            raise AgentRaised(f"The agent raised {name}, but its run was not cancelled{suffix}") from error
        yield event
