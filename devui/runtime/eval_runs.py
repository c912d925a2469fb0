"""The eval runs of this process. What a run does is the engine's business (`evals_app.engine`).

Who cancels one says so in its row, which the engine looks at.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from google.adk.sessions.base_session_service import BaseSessionService

from devui.runtime.agent_loading import AgentSource
from evals_app.runs import writes
from sessions_app.errors import SessionMissing
from sessions_app.store import units_of_work

log = logging.getLogger(__name__)


class EvalRuns:
    """Eval runs that have not ended, each with the event that cancels it when the process ends."""

    def __init__(self, source: AgentSource, runtime_id: str, on_left: Callable[[], None]) -> None:
        self.active: dict[str, asyncio.Event] = {}
        self._source = source
        self._runtime_id = runtime_id
        self._on_left = on_left
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, eval_run_id: str) -> None:
        """Carry out an eval run, whoever listens. One that runs already is left alone.

        It is this process's when this returns: should it end now, the run is known to have been with it.
        """
        await units_of_work.write(writes.assign_runs, [eval_run_id], self._runtime_id)
        if eval_run_id in self.active:
            return
        cancelled = self.active[eval_run_id] = asyncio.Event()
        task = asyncio.create_task(self._carry_out(eval_run_id, cancelled))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def cancel_all(self) -> None:
        """End every eval run, when the process is about to end."""
        for cancelled in self.active.values():
            cancelled.set()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def conversation(self, sessions: BaseSessionService, user_id: str, session_id: str) -> Any:
        """Return what a session's events are as the conversation of an eval case.

        Raises:
            SessionMissing: there is no such session.
        """
        from evals_app.engine.conversations import conversation_of

        session = await sessions.get_session(
            app_name=self._source.app_name, user_id=user_id, session_id=session_id
        )
        if session is None:
            raise SessionMissing("Session not found", hint=f"User {user_id!r} has no session {session_id!r}.")
        return conversation_of(session.events)

    async def _carry_out(self, eval_run_id: str, cancelled: asyncio.Event) -> None:
        from evals_app.engine.execution import execute_run

        try:
            await execute_run(eval_run_id, self._source, cancelled, runtime_id=self._runtime_id)
        except Exception:
            log.exception("Eval run %s failed.", eval_run_id)
        finally:
            del self.active[eval_run_id]
            self._on_left()
