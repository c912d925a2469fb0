"""The runs of this process: ADK's `Runner` driven in turns, what it says and what it raises.

Every run has a row, whoever asked for it.
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
from devui.runtime.exception_text import message_of, without_credentials
from devui.runtime.run_queue import LiveRun, Status, Turns
from sessions_app.adk import DjangoSessionService, MirroredSessionService
from sessions_app.adk.prefetch import ReadAhead
from sessions_app.lookup import find_session
from sessions_app.models import AgentSession
from sessions_app.sessions import storage_location
from sessions_app.sessions.writes import AppendResult
from sessions_app.store import retry, units_of_work

MAX_MESSAGE = 10_000

log = logging.getLogger(__name__)

Events = AsyncGenerator[Event, None]


class AgentExited(RuntimeError):
    """The agent's code called `sys.exit`, which ends its run and not this process."""


class AgentRaised(RuntimeError):
    """The agent's code raised what is no `Exception`, such as a group of a library's; its run failed of that."""


class Runs(Turns):
    """The runs of this process."""

    def __init__(
        self,
        runtime_id: str,
        on_left: Callable[[], None],
        truth: BaseSessionService | None = None,
        place: str = "",
    ) -> None:
        """Keep sessions in DevUI's store, unless another service at `place` is the `truth`."""
        super().__init__(runtime_id, on_left)
        here = TellingSessionService(self)
        self.service = here if truth is None else MirroredSessionService(truth, place, here)
        self.place = place

    def service_of(self, realm: str) -> BaseSessionService:
        """Return the session service that sees a realm."""
        return TellingSessionService(self, realm) if realm else self.service

    async def bring(self, app_name: str, user_id: str, session_id: str) -> None:
        """Bring a session here that another service keeps: its run has a row, and rows belong to sessions."""
        if isinstance(self.service, MirroredSessionService):
            none = GetSessionConfig(num_recent_events=0)
            await self.service.get_session(
                app_name=app_name, user_id=user_id, session_id=session_id, config=none
            )

    async def check_place(self, session: AgentSession) -> None:
        """Refuse a session of real life that is not kept where this process keeps its sessions.

        Raises:
            BadInput: it is not.
        """
        if not session.realm:
            await self.bring(session.app_name, session.user_id, session.session_id)
            await units_of_work.read(
                lambda: storage_location.require_same_service(find_session(session.pk), self.place)
            )

    async def manage(self, live: LiveRun, start: Callable[[], Events]) -> Events:
        """Yield the events of a run when its turn has come, and write how it ended.

        `start` is called when the run has been claimed. What the agent raises is written and raised again.
        """
        live.task = asyncio.current_task()
        try:
            if not await self.take_turn(live):
                await self.leave_unclaimed(live)
                return
            async with aclosing(start()) as events:
                async for event in _unless_it_gives_up(events):
                    self._saw(live, event)
                    yield event
            await self.finish(live, await self.good_end(live))
        except (GeneratorExit, asyncio.CancelledError):
            await self.finish(live, Status.CANCELLED)
            raise
        except SystemExit as error:
            exited = AgentExited(f"The agent called sys.exit({error.code!r}).")
            await self.fail(live, exited.with_traceback(error.__traceback__))
            raise exited from error
        except Exception as error:
            await self.fail(live, error)
            if (sent := without_credentials(error)) is not error:
                raise sent from None
            raise
        except KeyboardInterrupt:
            raise  # it is the process's, which ends
        except BaseException as error:
            await self.fail(live, error)
            raise AgentRaised(f"The agent raised {type(error).__name__}: {message_of(error)}") from error

    async def fail(self, live: LiveRun, error: BaseException) -> None:
        """Write that a run failed: an event in the timeline, unless ADK wrote one, then the row with the traceback."""
        if live.abort.is_set():
            await self.finish(live, Status.CANCELLED)
            return
        message = message_of(error)[:MAX_MESSAGE]
        try:
            if live.stored_error not in _codes_of(error):
                await self._tell_session(live, type(error).__name__, message)
        finally:
            await self.finish(
                live,
                Status.FAILED,
                error_type=type(error).__name__,
                error=message,
                traceback=traceback_text(error),
            )

    async def fail_in_turn(self, live: LiveRun, error: BaseException) -> None:
        """Write that a run could not begin. Until its turn has come the session is that of another run."""
        if await self.take_turn(live):
            await self.fail(live, error)
        else:
            await self.leave_unclaimed(live)

    def told_of(self, event: Event, appended: AppendResult) -> None:
        """Tell the readers of a session's run that an event was stored, and note the run's invocation."""
        live = self.note_stored(
            appended.session_pk,
            appended.seq,
            event_id=event.id,
            author=event.author,
            branch=event.branch or "",
            invocation_id=event.invocation_id,
        )
        if live is not None and event.error_code:
            live.stored_error = event.error_code

    def _saw(self, live: LiveRun, event: Event) -> None:
        if event.author != "user":
            live.author = event.author
        if not event.partial or event.content is None:
            return
        for part in event.content.parts or []:
            if part.text:
                live.frames.publish(
                    "chunk",
                    author=event.author,
                    branch=event.branch or "",
                    invocation_id=event.invocation_id,
                    event_id=event.id,
                    text=part.text,
                    thought=bool(part.thought),
                )

    async def _tell_session(self, live: LiveRun, code: str, message: str) -> None:
        """Append the failure to the session, as soon as the store takes it.

        That it cannot be told for another reason must not hide the failure itself.
        """
        live.invocation_id = live.invocation_id or f"e-{uuid.uuid4()}"  # it failed before ADK named one
        event = Event(
            author=live.author, invocation_id=live.invocation_id, error_code=code, error_message=message
        )
        try:
            await retry.run(partial(self._append, live, event))
        except Exception:
            log.exception("The failure of run %s could not be added to its session.", live.id)

    async def _append(self, live: LiveRun, event: Event) -> None:
        """Append an event to a run's session, if that is there. One that is stored already is not stored again."""
        owner = {"app_name": live.session.app_name, "user_id": live.session.user_id}
        service = self.service_of(live.session.realm)
        session = await service.get_session(
            **owner, session_id=live.session.session_id, config=GetSessionConfig(num_recent_events=0)
        )
        if session is not None:
            await service.append_event(session, event)


class TellingSessionService(DjangoSessionService):
    """The session service of a runtime: what it stores, it tells the readers of the session's run."""

    notes_questions = False  # the run's row says at its end what it waits for

    def __init__(self, runs: Runs, realm: str = "") -> None:
        super().__init__(realm, ahead=None if realm else ReadAhead())
        self._runs = runs

    @override
    def event_stored(self, session: Session, event: Event, appended: AppendResult) -> None:
        """Tell of a stored event."""
        self._runs.told_of(event, appended)


def _codes_of(error: BaseException) -> set[str]:
    """Return the codes by which ADK stores an error: the status that its API names, else its class.

    See `google/adk/workflow/_node_runner.py`.
    """
    status = getattr(error, "status", None)
    return {type(error).__name__, *([status] if isinstance(status, str) else [])}


async def _unless_it_gives_up(events: Events) -> Events:
    """Yield an agent's events. A cancellation that it raises itself is an error of its own: nobody asked for one.

    Libraries raise it when a connection is lost. Whoever closes this generator does so while it yields.

    Raises:
        AgentRaised: the agent raised `CancelledError` or `GeneratorExit` and its run goes on otherwise.
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
            name, said = type(error).__name__, message_of(error)
            words = "" if said == name else f": {said}"
            raise AgentRaised(f"The agent raised {name}, and nobody had cancelled its run{words}") from error
        yield event
