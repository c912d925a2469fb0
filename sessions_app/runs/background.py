"""Background tasks that survive the request which started them.

The server cancels a request at any `await` when its client disconnects. A run's row that is being written then must
not be orphaned: it would stay queued forever and block every later run of its session.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from sessions_app.runs import lifecycle
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.errors import StoreFault
from sessions_app.store.models import Run

R = TypeVar("R")
Row = TypeVar("Row", bound=Run | None)


class BackgroundTasks(set[asyncio.Task[Any]]):
    """The running tasks of one owner. The event loop itself holds only weak references to tasks."""

    def start(self, work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        """Run a coroutine in a task."""
        task = asyncio.create_task(work)
        self.add(task)
        task.add_done_callback(self.discard)
        return task

    async def cancel(self) -> None:
        """Cancel the tasks and wait for their ends."""
        for task in self:
            task.cancel()
        await asyncio.gather(*self, return_exceptions=True)


_tasks = BackgroundTasks()


def run_in_background(work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
    """Run work in a task that outlives the caller."""
    return _tasks.start(work)


async def run_to_completion(work: Coroutine[Any, Any, R]) -> R:
    """Run work to its end, even if the caller is cancelled."""
    return await asyncio.shield(run_in_background(work))


async def create_row(create: Callable[[str], R], run_id: str = "") -> R:
    """Write the row of a run. `create` takes the run's id: `run_id`, or a generated one.

    If the store fails, the run is cancelled: it may have been written nevertheless.
    """
    run_id = run_id or uuid.uuid4().hex
    try:
        return await units_of_work.write(create, run_id)
    except StoreFault:
        run_in_background(_cancel_run(run_id))
        raise


async def create_callers_row(create: Callable[[str], Row]) -> Row:
    """Write the row of a run that belongs to its caller: if the caller is cancelled, so is the run."""
    creating = run_in_background(create_row(create))
    try:
        return await asyncio.shield(creating)
    except asyncio.CancelledError:
        run_in_background(_cancel_when_created(creating))
        raise


async def _cancel_when_created(creating: asyncio.Future[Row]) -> None:
    with suppress(StoreFault):  # then the run is cancelled already
        run = await creating
        if run is not None:
            await _cancel_run(run.pk)


async def _cancel_run(run_id: str) -> None:
    await retry.write(lifecycle.finish, run_id, Run.Status.CANCELLED)
