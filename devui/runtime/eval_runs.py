"""The eval runs of this process, and its attempts of runs that workers coordinate. `evals_app.execution` executes them.

To cancel them, their rows are marked; the execution polls the rows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from google.adk.sessions.base_session_service import BaseSessionService

from devui.runtime.agent_loading import AgentCode
from evals_app.runs.writes import runs
from sessions_app.runs.background import BackgroundTasks
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import SessionMissing

if TYPE_CHECKING:
    from evals_app.execution.process_attempts import ProcessAttempts

log = logging.getLogger(__name__)


class EvalRuns:
    """The active eval runs, each with an event that cancels it when the process ends.

    With `continue_elsewhere` they are left as they are then, for another process to go on with.
    """

    def __init__(
        self,
        source: AgentCode,
        runtime_id: str,
        on_left: Callable[[], None],
        *,
        continue_elsewhere: bool = False,
    ) -> None:
        self.active: dict[str, asyncio.Event] = {}
        self._source = source
        self._runtime_id = runtime_id
        self._on_left = on_left
        self._continue_elsewhere = continue_elsewhere
        self._tasks = BackgroundTasks()
        self._attempts: ProcessAttempts | None = None

    def __len__(self) -> int:
        """Return the number of active eval runs and attempts."""
        return len(self.active) + len(self._attempts or ())

    async def prepare(self, eval_run_id: str) -> None:
        """Load what the attempts of an eval run need, and store the run's facts. On failure the run ends."""
        await self._process_attempts().prepare(eval_run_id)

    async def execute_attempt(self, attempt_pk: int) -> None:
        """Execute an offered attempt in the background; return when it has ended, or another process has taken it."""
        executing = self._tasks.start(self._process_attempts().execute(attempt_pk))
        executing.add_done_callback(lambda _: self._on_left())
        await asyncio.shield(executing)

    def _process_attempts(self) -> ProcessAttempts:
        if self._attempts is None:
            from evals_app.execution.process_attempts import ProcessAttempts

            self._attempts = ProcessAttempts(self._source, self._runtime_id)
        return self._attempts

    async def start(self, eval_run_id: str) -> None:
        """Execute an eval run in the background. A run that is active already is left alone.

        When this returns, the row names this process as the owner, in case the process dies.
        """
        await units_of_work.write(runs.assign_runs, [eval_run_id], self._runtime_id)
        if eval_run_id in self.active:
            return
        cancelled = self.active[eval_run_id] = asyncio.Event()
        self._tasks.start(self._carry_out(eval_run_id, cancelled))

    def check_variants(self, variants: Sequence[str], agent: Any) -> None:
        """Require that variants, as JSON texts, can be applied to the agent.

        Raises:
            BadInput: one names something that the agent does not have, or that cannot be varied.
        """
        from evals_app.execution.variants import apply_variant
        from evals_app.variants.variant import Variant

        for text in variants:
            apply_variant(Variant.from_json(text), agent, None)

    def inspect_agent(self, settings: str, agent: Any) -> dict[str, Any]:
        """Return the agent to optimise as JSON values, checked with the settings of an optimisation as JSON text.

        Raises:
            BadInput: the agent or the optimiser cannot be used.
        """
        from evals_app.execution import optimisers
        from evals_app.optimisation.settings import OptimiserSettings

        code_version = self._source.code_version
        return asdict(optimisers.inspect_agent(agent, OptimiserSettings.from_json(settings), code_version))

    async def find_next_step(self, optimisation_id: str) -> dict[str, Any]:
        """Return what the optimiser of an optimisation needs next, as JSON values.

        Raises:
            BadInput: the optimiser or its model fails.
        """
        from evals_app.execution import optimisers

        return asdict(await optimisers.find_next_step(optimisation_id))

    async def cancel_all(self) -> None:
        """Stop every eval run before the process ends."""
        if not self._continue_elsewhere:
            for cancelled in self.active.values():
                cancelled.set()
        await self._tasks.cancel()
        if self._attempts is not None:
            await self._attempts.stop()

    async def conversation(self, sessions: BaseSessionService, user_id: str, session_id: str) -> Any:
        """Return the events of a session as the conversation of an eval case.

        Raises:
            SessionMissing: there is no such session.
        """
        from evals_app.execution.conversations import build_conversation

        session = await sessions.get_session(
            app_name=self._source.app_name, user_id=user_id, session_id=session_id
        )
        if session is None:
            raise SessionMissing("Session not found", hint=f"User {user_id!r} has no session {session_id!r}.")
        return build_conversation(session.events)

    async def _carry_out(self, eval_run_id: str, cancelled: asyncio.Event) -> None:
        from evals_app.execution.run_execution import execute_run

        try:
            await execute_run(
                eval_run_id,
                self._source,
                cancelled,
                runtime_id=self._runtime_id,
                continue_elsewhere=self._continue_elsewhere,
            )
        except Exception:
            log.exception("Eval run %s failed.", eval_run_id)
        finally:
            del self.active[eval_run_id]
            self._on_left()
