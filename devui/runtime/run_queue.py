"""Queue of runs: rows claimed in order, with their frames, abort signals and ends.

The runs on one session are executed in the order of their rows, across processes, too, such as an old process that
finishes its runs and the one that replaces it. This module does not know ADK: runtimes execute agents with it, and the
web process executes the runs of remote servers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sessions_app.delivery.failure import NO_FAILURE, Failure
from sessions_app.runs import error_hints, lifecycle
from sessions_app.runs.background import BackgroundTasks
from sessions_app.runs.frame_log import FrameLog
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.database.bounded_dict import BoundedDict
from sessions_app.store.database.stopwatch import Stopwatch
from sessions_app.store.errors import StoreFault
from sessions_app.store.models import AgentSession, Run
from sessions_app.store.runs import session_runs

END_S = 5.0
"""Seconds for which the response to a run waits until the store has its end."""

POLL_S = 0.25
"""Seconds between checks whether another process has finished the previous run."""

ABORT_S = 0.5
"""Seconds an agent has to react to ADK's abort signal, and then to the cancellation of its task."""

MAX_ENDED_LOGS = 200
"""Number of ended runs whose frames are kept for late readers."""

Status = Run.Status


@dataclass(eq=False, slots=True)
class ActiveRun:
    """A run that is queued or running in this process.

    Attributes:
        queue_position: sort key among the runs on its session.
        author: the author of the last event; at first the root agent.
        abort: the abort signal that ADK checks.
        task: the task that executes it.
        source: `source` of its row.
        reason: why the process cancels it; empty if a user does.
        reason_type: kind of the reason, as the error type of its row.
        stored_error: code of the last error event that ADK stored; empty if none.
        watch: stopwatch since its start; None before it starts.
        ending: the task that records the end, once one is known.
    """

    id: str
    session: AgentSession
    queue_position: tuple[float, str]
    author: str
    source: str
    abort: asyncio.Event
    frames: FrameLog = field(default_factory=FrameLog)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[Any] | None = None
    invocation_id: str = ""
    reason: str = ""
    reason_type: str = "ServerStopped"
    stored_error: str = ""
    watch: Stopwatch | None = None
    ending: asyncio.Task[None] | None = None


class RunQueue:
    """The runs that this process executes."""

    def __init__(
        self,
        runtime_id: str,
        on_left: Callable[[], None],
        *,
        abort_s: float = ABORT_S,
        cancel_s: float = ABORT_S,
    ) -> None:
        """Create an empty queue.

        Args:
            on_left: called when a run has left the queue.
            abort_s: seconds that a run has to react to the abort signal; then its task is cancelled.
            cancel_s: seconds that a cancelled task has to end.
        """
        self.runtime_id = runtime_id
        self._abort_s = abort_s
        self._cancel_s = cancel_s
        self.code_version = self.git_revision = ""  # set when the agent has been loaded, before any run
        self._on_left = on_left
        self.active: dict[str, ActiveRun] = {}
        self._running: dict[int, ActiveRun] = {}
        self._ended_frames: BoundedDict[str, FrameLog] = BoundedDict(MAX_ENDED_LOGS)
        self._tasks = BackgroundTasks()
        self._freed = asyncio.Event()

    def add_run(self, run: Run, *, author: str = "system", abort: asyncio.Event | None = None) -> ActiveRun:
        """Add a queued run, whose session has been read with it."""
        position = (run.created_at, run.pk)
        active = ActiveRun(run.pk, run.session, position, author, run.source, abort or asyncio.Event())
        self.active[run.pk] = active
        active.frames.publish("status", status=Status.QUEUED)
        return active

    def frames(self, run_id: str) -> FrameLog | None:
        """Return the frames of a run that is active or ended recently."""
        active = self.active.get(run_id)
        return active.frames if active else self._ended_frames.get(run_id)

    async def cancel(self, run_id: str) -> bool:
        """Signal a run to abort, then cancel its task. Return whether it ended; a blocking agent does not."""
        active = self.active.get(run_id)
        if active is None:
            return True
        active.abort.set()
        self._wake_waiting()
        if not await _wait_for(self._abort_s, active.ended) and active.task is not None:
            active.task.cancel()
        return await _wait_for(self._cancel_s, active.ended)

    def expire(self, active: ActiveRun, reason: str) -> None:
        """Cancel a run in the background because it was paused for too long."""
        active.reason, active.reason_type = reason, error_hints.PAUSE_EXPIRED
        self._tasks.start(self.cancel(active.id))

    async def cancel_all(self, why: str) -> None:
        """Cancel every run before the process ends, with a reason for their rows.

        Runs that have not started stay queued for another process, unless their caller waits for a response of this
        one.
        """
        for active in self.active.values():
            active.reason = why
        await asyncio.gather(*(self.cancel(run_id) for run_id in list(self.active)))

    async def finish(self, active: ActiveRun, status: str, failure: Failure = NO_FAILURE) -> None:
        """Record a run's end, unless one is recorded already, and notify its readers.

        The write is retried until the store accepts it; the caller waits for it for at most `END_S`. The first of
        several ends counts, and cancelling the caller does not interrupt it.
        """
        if active.ending is None:
            active.ending = self._tasks.start(self._finish_run(active, status, failure))
        await asyncio.wait([active.ending], timeout=END_S)

    def note_stored(
        self, session_pk: int, seq: int, *, event_id: str, author: str, branch: str, invocation_id: str
    ) -> ActiveRun | None:
        """Notify the readers of a session's run of a stored event, and record the run's invocation.

        Return the run; None if this process runs nothing on the session.
        """
        active = self._running.get(session_pk)
        if active is None:
            return None
        active.frames.publish("stored", seq=seq, event_id=event_id, author=author, branch=branch)
        if not active.invocation_id and invocation_id:
            active.invocation_id = invocation_id
            self._tasks.start(retry.write(lifecycle.record_invocation, active.id, invocation_id))
        return active

    async def _finish_run(self, active: ActiveRun, status: str, failure: Failure) -> None:
        if active.ended.is_set():
            return
        ending: Collection[str] = Run.ACTIVE
        if status == Status.CANCELLED and active.reason:
            failure = Failure(active.reason_type, active.reason)
            ending = Run.ACTIVE if active.source == lifecycle.ADK_SOURCE else (Status.RUNNING,)
        end = partial(
            lifecycle.finish,
            failure=failure,
            invocation_id=active.invocation_id,
            from_status=ending,
            finished_at=active.watch.now() if active.watch else time.time(),
        )
        await retry.write(end, active.id, status)
        await self._leave_run(active)

    async def take_turn(self, active: ActiveRun) -> bool:
        """Wait until no earlier run is active on the session, then claim the run. Return whether it was claimed.

        Retries while the store is unavailable or busy; if no caller waits for the run, also after other faults.

        Raises:
            StoreFault: a caller waits for the run, and the fault does not pass by itself (`retry.PASSING`).
        """
        faults = retry.PASSING if active.source == lifecycle.ADK_SOURCE else StoreFault
        while not active.abort.is_set():
            freed = self._freed
            find_first = partial(units_of_work.read, session_runs.active_run, active.session.pk)
            first = await retry.run(find_first, faults)
            if first is None or (
                first.status == Status.QUEUED and (first.created_at, first.pk) > active.queue_position
            ):
                return False
            if first.pk == active.id:
                code = self.code_version, self.git_revision
                claim = partial(lifecycle.claim, active.id, self.runtime_id, *code, time.time())
                claimed = await retry.run(partial(units_of_work.write, claim), faults)
                if claimed is None:
                    return False
                active.watch = Stopwatch(claimed.started_at)
                self._running[active.session.pk] = active
                active.frames.publish("status", status=Status.RUNNING)
                return True
            await _wait_for(POLL_S, freed)
        return False

    async def release_unclaimed(self, active: ActiveRun) -> None:
        """Release a run that was cancelled before its turn, has ended, or belongs to another process now."""
        if active.abort.is_set():
            await self.finish(active, Status.CANCELLED)
        else:
            await self._leave_run(active)

    async def final_status(self, active: ActiveRun) -> Status:
        """Return the status of a run that ended without an error: cancelled, waiting for input, or done."""
        if active.abort.is_set():
            return Status.CANCELLED
        waiting = await retry.read(session_runs.open_call_ids, active.session.pk, active.invocation_id)
        return Status.WAITING if waiting else Status.DONE

    async def _leave_run(self, active: ActiveRun) -> None:
        status = await retry.read(lifecycle.get_status, active.id) or Status.CANCELLED
        if status not in Run.ACTIVE:
            active.frames.publish("status", status=status)
        active.frames.publish("end", status=status)
        self.active.pop(active.id, None)
        if self._running.get(active.session.pk) is active:
            del self._running[active.session.pk]
        self._ended_frames[active.id] = active.frames
        active.ended.set()
        self._wake_waiting()
        self._on_left()

    def _wake_waiting(self) -> None:
        self._freed.set()
        self._freed = asyncio.Event()


async def _wait_for(seconds: float, event: asyncio.Event) -> bool:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()
