"""Delivery of runs to the process of their agent. The row of a run holds its input and its result."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from typing_extensions import override

from evals_app.models import EvalRun
from evals_app.runs.writes import runs
from sessions_app.agent_processes import processes
from sessions_app.delivery.deliveries import Delivery, deliveries
from sessions_app.delivery.failure import Failure
from sessions_app.runs import background, job_queue
from sessions_app.runs.runtime_client import RuntimeProvider, provider
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.database.change_listener import subscribe
from sessions_app.store.errors import RuntimeUnavailable

PAGE_WAIT_S = 2.0
"""Seconds that a page waits for a run to be taken; delivery continues in the background."""

CANCEL_GRACE_S = 8.0
"""Seconds that a process has to stop a run (`execution.executor` gives agents 5 of them) before it is ended."""

log = logging.getLogger(__name__)


async def create_and_deliver(create: Callable[[str], EvalRun]) -> EvalRun:
    """Create a run by `create(run_id)` and deliver it to its agent's process. A cancelled caller undoes neither.

    If the store fails, the run is cancelled: it may have been stored nevertheless, and the caller will create it again.

    Raises:
        StoreFault: the store failed; also what `create` raises.
    """
    [run] = await create_all_and_deliver(lambda run_id: [create(run_id)])
    return run


async def create_all_and_deliver(create: Callable[[str], Sequence[EvalRun]]) -> Sequence[EvalRun]:
    """Create a run and those of its variants by `create(run_id)`, all or none, and deliver them.

    The first one has the id `run_id`. Otherwise like `create_and_deliver`.

    Raises:
        StoreFault: the store failed; also what `create` raises.
    """
    run_id = uuid.uuid4().hex
    cancel_them = partial(retry.write, runs.begin_cancel_with_variants, run_id)
    return await background.run_to_completion(_write_and_deliver(partial(create, run_id), cancel_them))


async def restart_and_deliver(run_id: str, restart: Callable[[str], Sequence[EvalRun]]) -> Sequence[EvalRun]:
    """Restart a run that has ended, or attempts of it, by `restart(new_run_id)`; deliver the runs that execute them.

    A cancelled caller undoes neither. If the store fails and a run is pending nevertheless, it is delivered: an active
    run cannot be restarted again.

    Raises:
        StoreFault: the store failed; also what `restart` raises.
    """
    new_run_id = uuid.uuid4().hex
    in_doubt = partial(_deliver_own, [run_id, new_run_id])
    return await background.run_to_completion(_write_and_deliver(partial(restart, new_run_id), in_doubt))


async def _write_and_deliver(
    change: Callable[[], Sequence[EvalRun]], in_doubt: Callable[[], Coroutine[Any, Any, object]]
) -> Sequence[EvalRun]:
    """Write pending runs and deliver them. `in_doubt` is awaited if the write may or may not have succeeded."""
    pending_runs = await background.write_rows(change, in_doubt)
    await asyncio.gather(*map(start_delivery, pending_runs))
    return pending_runs


async def _deliver_own(run_ids: Sequence[str]) -> None:
    """Deliver runs that are pending and owned by this process. Runs of a queue have their jobs if they were stored."""
    if job_queue.current_queue() is not None:
        return
    pending = EvalRun.objects.filter(status=EvalRun.Status.PENDING, runtime_id=processes.own_id())
    for run in await retry.read(lambda: list(pending.filter(pk__in=run_ids))):
        await start_delivery(run)


async def start_delivery(run: EvalRun) -> None:
    """Start to deliver a pending run, unless its job does. If no process takes it, the run shows why."""
    if job_queue.current_queue() is not None:
        return
    await asyncio.wait([deliveries.start(EvalRunDelivery(run.app_name, run.id))], timeout=PAGE_WAIT_S)


async def cancel_run(run_id: str) -> None:
    """Request a run's cancellation. A process that does not react is ended in the background."""
    if await units_of_work.write(runs.begin_cancel, run_id):
        background.run_in_background(_ensure_cancelled(run_id))


class EvalRunDelivery(Delivery):
    """A pending eval run on its way to a process of its app, which becomes its owner.

    While the server stops, the run stays pending: the next server adopts it (`crashes.adopt_abandoned`).
    """

    retried = RuntimeUnavailable

    def __init__(self, app_name: str, run_id: str, runtimes: RuntimeProvider | None = None) -> None:
        """Deliver the run with id `run_id`. `runtimes` finds the process; None: the provider of this process."""
        super().__init__(app_name, run_id)
        self._runtimes = runtimes

    @override
    async def send(self) -> None:
        runtime = await (self._runtimes or provider()).client(self.app_name)
        await runtime.call("POST", "/devui/evals", {"eval_run_id": self.key})

    @override
    def end(self, failure: Failure, ended_processes: int) -> None:
        runs.finish_run(self.key, EvalRun.Status.FAILED, failure)


async def _ensure_cancelled(run_id: str) -> None:
    if job_queue.current_queue() is not None:
        await retry.write(runs.close_run_traces, run_id)
        return
    active = EvalRun.objects.filter(pk=run_id, status__in=EvalRun.ACTIVE)
    async with subscribe() as notifications:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CANCEL_GRACE_S):
                while await retry.read(active.exists):
                    await notifications.wait()
                return
    runtime_id = await retry.read(EvalRun.objects.values_list("runtime_id", flat=True).get, pk=run_id)
    if not await retry.write(runs.finish_run, run_id, EvalRun.Status.CANCELLED) or not runtime_id:
        return
    why = f"Its process was ended to cancel eval run {run_id}, whose agent did not react."
    with contextlib.suppress(RuntimeUnavailable):
        if await provider().end_process(runtime_id, why):
            log.warning(why)
