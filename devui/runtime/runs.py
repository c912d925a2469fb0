"""The runs of this process: their turns, their frames, their abort signals and their ends.

Every run has a row, whoever asked for it. Runs on one session take turns in the order of their rows, which also
holds between two processes, such as an old one that finishes its runs and the one that replaces it.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.session import Session
from typing_extensions import override

from devui.runtime.loading import traceback_text
from sessions_app import db, keeping
from sessions_app.adk import DjangoSessionService, MirroredSessionService
from sessions_app.adk.ahead import ReadAhead
from sessions_app.found import find_session
from sessions_app.models import AgentSession, Run
from sessions_app.runs import rows
from sessions_app.runs.frames import FrameLog
from sessions_app.writes import Appended

TURN_POLL_S = 0.25
"""Seconds between two looks whether another process has finished the run before."""

ABORT_S = 0.5
"""Seconds an agent has to react to ADK's abort signal before its task is cancelled."""

KEPT_LOGS = 200
"""How many ended runs keep their frames for readers that come late."""

MAX_MESSAGE = 10_000

log = logging.getLogger(__name__)

Events = AsyncGenerator[Event, None]
Status = Run.Status


class AgentExited(RuntimeError):
    """The agent's code called `sys.exit`, which ends its run and not this process."""


@dataclass(eq=False, slots=True)
class LiveRun:
    """A run in this process.

    Attributes:
        place: its place among the runs on its session.
        author: the agent that spoke last; the root agent before any did.
        abort: the signal that ADK looks at.
        task: the task that drives it.
        reason: why it is cancelled, when no user asked for it.
        stored_error: code of the error event that ADK itself stored last; empty before any.
    """

    id: str
    session: AgentSession
    place: tuple[float, str]
    author: str
    abort: asyncio.Event
    frames: FrameLog = field(default_factory=FrameLog)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[Any] | None = None
    invocation_id: str = ""
    reason: str = ""
    stored_error: str = ""


class Runs:
    """The runs of this process."""

    def __init__(
        self,
        runtime_id: str,
        code_version: str,
        on_left: Callable[[], None],
        truth: BaseSessionService | None = None,
        place: str = "",
    ) -> None:
        """Keep sessions in DevUI's store, unless another service at `place` is the `truth`."""
        self.runtime_id = runtime_id
        self.code_version = code_version
        self._on_left = on_left
        here = TellingSessionService(self)
        self.service = here if truth is None else MirroredSessionService(truth, place, here)
        self.place = place
        self.active: dict[str, LiveRun] = {}
        self._running: dict[int, LiveRun] = {}
        self._kept: OrderedDict[str, FrameLog] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._freed = asyncio.Event()

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
            await db.read(lambda: keeping.refuse_elsewhere(find_session(session.pk), self.place))

    def enter(self, run: Run, *, author: str = "system", abort: asyncio.Event | None = None) -> LiveRun:
        """Take in a queued run, whose session has been read with it."""
        place = (run.created_at, run.pk)
        live = LiveRun(run.pk, run.session, place, author, abort or asyncio.Event())
        self.active[run.pk] = live
        live.frames.publish("status", status=Status.QUEUED)
        return live

    def frames(self, run_id: str) -> FrameLog | None:
        """Return the frames of a run that is active or ended not long ago."""
        live = self.active.get(run_id)
        return live.frames if live else self._kept.get(run_id)

    async def manage(self, live: LiveRun, start: Callable[[], Events]) -> Events:
        """Yield the events of a run when its turn has come, and write how it ended.

        `start` is called when the run has been claimed. What the agent raises is written and raised again.
        """
        live.task = asyncio.current_task()
        try:
            if not await self._take_turn(live):
                await self._leave_unclaimed(live)
                return
            async with aclosing(start()) as events:
                async for event in events:
                    self._saw(live, event)
                    yield event
            await self.finish(live, await self._good_end(live))
        except (GeneratorExit, asyncio.CancelledError):
            await self.finish(live, Status.CANCELLED)
            raise
        except SystemExit as error:
            exited = AgentExited(f"The agent called sys.exit({error.code!r}).")
            await self.fail(live, exited.with_traceback(error.__traceback__))
            raise exited from error
        except Exception as error:
            await self.fail(live, error)
            raise

    async def cancel(self, run_id: str) -> bool:
        """Ask a run to end, then cancel its task. Return whether it ended; an agent that blocks does not."""
        live = self.active.get(run_id)
        if live is None:
            return True
        live.abort.set()
        self._wake()
        if not await _within(ABORT_S, live.ended) and live.task is not None:
            live.task.cancel()
        return await _within(ABORT_S, live.ended)

    async def cancel_all(self, why: str) -> None:
        """Cancel every run, when the process is about to end; nobody asked for it, so the rows say why."""
        for live in self.active.values():
            live.reason = why
        await asyncio.gather(*(self.cancel(run_id) for run_id in list(self.active)))

    async def fail(self, live: LiveRun, error: Exception) -> None:
        """Write that a run failed: an event in the timeline, unless ADK wrote one, then the row with the traceback."""
        if live.abort.is_set():
            await self.finish(live, Status.CANCELLED)
            return
        message = (str(error) or type(error).__name__)[:MAX_MESSAGE]
        if live.stored_error != type(error).__name__:
            await self._tell_session(live, type(error).__name__, message)
        await self.finish(
            live,
            Status.FAILED,
            error_type=type(error).__name__,
            error=message,
            traceback=traceback_text(error),
        )

    async def finish(self, live: LiveRun, status: str, **error: str) -> None:
        """Write a run's end, unless somebody else has written one, and tell its readers.

        A second cancellation of the caller does not interrupt it.
        """
        await asyncio.shield(self._spawn(self._finish(live, status, error)))

    def told_of(self, event: Event, appended: Appended) -> None:
        """Tell the readers of a session's run that an event was stored, and note the run's invocation."""
        live = self._running.get(appended.session_pk)
        if live is None:
            return
        live.frames.publish(
            "stored", seq=appended.seq, event_id=event.id, author=event.author, branch=event.branch or ""
        )
        if event.error_code:
            live.stored_error = event.error_code
        if not live.invocation_id and event.invocation_id:
            live.invocation_id = event.invocation_id
            self._spawn(db.write(rows.note_invocation, live.id, event.invocation_id))

    async def _finish(self, live: LiveRun, status: str, error: Mapping[str, str]) -> None:
        if not live.ended.is_set():
            if status == Status.CANCELLED and live.reason:
                error = {"error_type": "ServerStopped", "error": live.reason}
            await db.write(rows.finish, live.id, status, invocation_id=live.invocation_id, **error)
            await self._leave(live)

    async def _take_turn(self, live: LiveRun) -> bool:
        """Wait until no earlier run is active on the session, then claim the run. Return whether it was."""
        while not live.abort.is_set():
            freed = self._freed
            first = await db.read(rows.active_run, live.session.pk)
            if first is None or (first.created_at, first.pk) > live.place:
                return False
            if first.pk == live.id:
                claimed = await db.write(rows.claim, live.id, self.runtime_id, self.code_version)
                if claimed is None:
                    return False
                self._running[live.session.pk] = live
                live.frames.publish("status", status=Status.RUNNING)
                return True
            await _within(TURN_POLL_S, freed)
        return False

    async def _leave_unclaimed(self, live: LiveRun) -> None:
        """Let go of a run that was cancelled before its turn, or ended or claimed elsewhere."""
        if live.abort.is_set():
            await self.finish(live, Status.CANCELLED)
        else:
            await self._leave(live)

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

    async def _good_end(self, live: LiveRun) -> Status:
        if live.abort.is_set():
            return Status.CANCELLED
        waiting = await db.read(rows.open_calls, live.session.pk, live.invocation_id)
        return Status.WAITING if waiting else Status.DONE

    async def _tell_session(self, live: LiveRun, code: str, message: str) -> None:
        """Append the failure to the session. That it cannot be told must not hide the failure itself."""
        try:
            await self._append_error(live, code, message)
        except Exception:
            log.exception("The failure of run %s could not be added to its session.", live.id)

    async def _append_error(self, live: LiveRun, code: str, message: str) -> None:
        owner = {"app_name": live.session.app_name, "user_id": live.session.user_id}
        service = self.service_of(live.session.realm)
        session = await service.get_session(
            **owner, session_id=live.session.session_id, config=GetSessionConfig(num_recent_events=0)
        )
        if session is not None:
            live.invocation_id = live.invocation_id or f"e-{uuid.uuid4()}"  # it failed before ADK named one
            event = Event(
                author=live.author,
                invocation_id=live.invocation_id,
                error_code=code,
                error_message=message,
            )
            await service.append_event(session, event)

    async def _leave(self, live: LiveRun) -> None:
        status = await db.read(rows.status_of, live.id) or Status.CANCELLED
        live.frames.publish("status", status=status)
        live.frames.publish("end", status=status)
        self.active.pop(live.id, None)
        if self._running.get(live.session.pk) is live:
            del self._running[live.session.pk]
        self._kept[live.id] = live.frames
        while len(self._kept) > KEPT_LOGS:
            self._kept.popitem(last=False)
        live.ended.set()
        self._wake()
        self._on_left()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _wake(self) -> None:
        self._freed.set()
        self._freed = asyncio.Event()


class TellingSessionService(DjangoSessionService):
    """The session service of a runtime: what it stores, it tells the readers of the session's run."""

    def __init__(self, runs: Runs, realm: str = "") -> None:
        super().__init__(realm, ahead=None if realm else ReadAhead())
        self._runs = runs

    @override
    def event_stored(self, session: Session, event: Event, appended: Appended) -> None:
        """Tell of a stored event."""
        self._runs.told_of(event, appended)


async def _within(seconds: float, event: asyncio.Event) -> bool:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()
