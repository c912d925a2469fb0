"""Background tasks that survive the request which started them.

The server cancels a request at any `await` when its client disconnects. A run's row that is being written then must
not be orphaned: it would stay queued forever and block every later run of its session.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from sessions_app.runs import lifecycle
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.database.change_listener import subscribe
from sessions_app.store.errors import StoreFault
from sessions_app.store.models import Run

log = logging.getLogger(__name__)

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


async def repeat(work: Callable[[], Awaitable[object]], seconds: float, subject: str) -> None:
    """Do work at intervals until cancelled. A failure is logged, naming the subject, and the next time may succeed."""
    while True:
        await asyncio.sleep(seconds)
        await _try_work(work, subject)


async def repeat_after_changes(work: Callable[[], Awaitable[object]], pause_s: float, subject: str) -> None:
    """Do work after changes of the store, like `repeat`. There are at least `pause_s` seconds between two times."""
    async with subscribe() as changes:
        while True:
            await asyncio.sleep(pause_s)
            await changes.wait()
            await _try_work(work, subject)


async def _try_work(work: Callable[[], Awaitable[object]], subject: str) -> None:
    try:
        await work()
    except StoreFault as fault:
        log.warning("%s waits for the store: %s", subject, fault.message)
    except Exception:
        log.exception("%s failed; retrying.", subject)


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
    return await write_rows(partial(create, run_id), partial(_cancel_run, run_id))


async def write_rows(change: Callable[[], R], in_doubt: Callable[[], Coroutine[Any, Any, object]]) -> R:
    """Write rows. If the store fails, they may be written nevertheless: `in_doubt` runs in the background."""
    try:
        return await units_of_work.write(change)
    except StoreFault:
        run_in_background(in_doubt())
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
