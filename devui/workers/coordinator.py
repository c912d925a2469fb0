"""Coordination of an eval run by the worker that claimed it. All workers with the run's code execute its attempts.

The rows are the state: a coordinator offers pending attempts to the queue while fewer than the run's parallelism are
offered or running, on any worker. So another worker can take over the coordination at any time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from devui.supervisor import http_calls
from devui.supervisor.runtime_process import RuntimeChild
from devui.workers.queues import ProcrastinateQueue, attempt_queue
from devui.workers.redelivery import queue_eval_run
from devui.workers.supervisor import WorkerSupervisor
from evals_app.models import EvalRun
from evals_app.runs.run_control import POLL_S, RunControl, RunEnding, RunSnapshot
from evals_app.runs.writes import crashes, offers, runs
from sessions_app.delivery.failure import NO_FAILURE, Failure
from sessions_app.delivery.process_tries import ProcessTries
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.database.change_listener import subscribe
from sessions_app.store.database.stopwatch import Stopwatch
from sessions_app.store.errors import DevUIError, RuntimeUnavailable, ServerStopping, StoreFault

PAUSE_S = 0.2
"""Minimum seconds between two checks of the rows of a run, however many changes there are."""

log = logging.getLogger(__name__)

HasCode = Callable[[str, str], bool]
"""Tells whether this worker can execute attempts of (app, code version)."""


class RunCoordinator:
    """Carries out a claimed eval run to its end.

    Attributes:
        run: as it was claimed, with its current parallelism; with its code version once that is known.
    """

    def __init__(self, run: EvalRun, supervisor: WorkerSupervisor, has_code: HasCode) -> None:
        self.run = run
        self._supervisor = supervisor
        self._has_code = has_code
        self._stopwatch = Stopwatch(run.started_at)

    async def carry_out(self) -> None:
        """Prepare the run, offer its attempts and end it. A run whose code is gone here waits for another worker."""
        try:
            child = await self._prepare_process()
            if child is None:
                return
            with child.hold():  # newer code does not replace it before the run has ended
                ending = await self._offer_attempts()
        except ServerStopping:  # another worker will coordinate the run
            return
        except Exception as error:
            log.log(logging.WARNING if isinstance(error, DevUIError) else logging.ERROR, "%s", error)
            await self._finish_run(EvalRun.Status.FAILED, failure=Failure.of(error))
            return
        if ending is None:
            await retry.write(self._give_up)
        else:
            await self._finish_run(ending.status, because=ending.because)

    async def _finish_run(self, status: str, *, failure: Failure = NO_FAILURE, because: str = "") -> None:
        finish = partial(runs.finish_run, self.run.pk, status, failure, because=because)
        await retry.write(partial(finish, now=self._stopwatch.now(), started_at=self.run.started_at))

    def _give_up(self) -> None:
        if crashes.continue_without_coordinator(self.run.pk, self.run.started_at):
            queue_eval_run(self.run.pk)

    async def _prepare_process(self) -> RuntimeChild | None:
        """Return the process that has loaded the agent of the run; None if the run has ended meanwhile."""
        preparing = asyncio.ensure_future(ProcessTries(RuntimeUnavailable).run(self._load_agent))
        try:
            while not preparing.done():
                await asyncio.wait({preparing}, timeout=POLL_S)
                if not preparing.done() and not await retry.read(self._is_current):
                    return None
            child = preparing.result()
        finally:
            preparing.cancel()
        if not await retry.read(self._is_current):
            return None
        self.run = await retry.read(EvalRun.objects.get, pk=self.run.pk)
        return child

    async def _load_agent(self) -> RuntimeChild:
        """Let a process load the agent and store the facts of the run."""
        child = await self._supervisor.child(self.run.app_name)
        await http_calls.call(child, "POST", "/devui/evals/plan", {"eval_run_id": self.run.pk})
        return child

    def _is_current(self) -> bool:
        """Tell whether the run is still active under the claim of this worker."""
        claimed = EvalRun.objects.filter(pk=self.run.pk, started_at=self.run.started_at)
        return claimed.filter(status=EvalRun.Status.RUNNING).exists()

    async def _offer_attempts(self) -> RunEnding | None:
        """Offer the attempts until all have ended. Return how the run ends, or None if its code is gone here."""
        control = RunControl(self.run, self._stopwatch)
        await retry.write(offers.withdraw_offers, self.run.pk)
        async with subscribe() as changes:
            while self._has_code(self.run.app_name, self.run.code_version):
                if ending := await control.check(self._set_parallelism):
                    return ending
                try:
                    if not await units_of_work.write(offers.offer_attempts, self.run, self._defer_attempts):
                        return RunEnding()
                except StoreFault as fault:
                    log.debug("Attempts wait for the store: %s", fault.message)
                await asyncio.sleep(PAUSE_S)
                await changes.wait()
        return None

    async def _set_parallelism(self, snapshot: RunSnapshot, now: float) -> None:
        self.run.parallelism = snapshot.parallelism

    def _defer_attempts(self, attempt_pks: Sequence[int]) -> None:
        queue = attempt_queue(self.run.app_name, self.run.code_version, self.run.adk_version)
        ProcrastinateQueue().defer_attempts(attempt_pks, queue)
