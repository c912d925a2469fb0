"""Runs that a request asks for, whose client may be gone before they are on their way.

A server cancels the request of a client that goes away, at any `await`. The row of a run that is written then must not
be left alone: it would wait for good, and every later run on its session behind it.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from sessions_app.errors import StoreFault
from sessions_app.models import Run
from sessions_app.runs import lifecycle
from sessions_app.store import retry, units_of_work

R = TypeVar("R")
Row = TypeVar("Row", bound=Run | None)

_tasks: set[asyncio.Future[Any]] = set()
"""Keeps what goes on after its request: the event loop alone would let it be collected."""


def run_in_background(work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
    """Do work beside the caller, and after it."""
    task = asyncio.ensure_future(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return task


async def run_to_completion(work: Coroutine[Any, Any, R]) -> R:
    """Do work to its end, also when the caller is cancelled meanwhile."""
    return await asyncio.shield(run_in_background(work))


async def create_row(create: Callable[[str], R], run_id: str = "") -> R:
    """Write the row of a run, whose id `create` is given: `run_id`, or one that is made.

    When the store fails the run is called off: it may have been written all the same, and nobody would begin it.
    """
    run_id = run_id or uuid.uuid4().hex
    try:
        return await units_of_work.write(create, run_id)
    except StoreFault:
        run_in_background(_cancel(run_id))
        raise


async def create_callers_row(create: Callable[[str], Row]) -> Row:
    """Write the row of a run that belongs to its caller. When that is cancelled meanwhile, so is the run."""
    creating = run_in_background(create_row(create))
    try:
        return await asyncio.shield(creating)
    except asyncio.CancelledError:
        run_in_background(_cancel_when_created(creating))
        raise


async def _cancel_when_created(creating: asyncio.Future[Row]) -> None:
    with suppress(StoreFault):  # then it is called off already
        run = await creating
        if run is not None:
            await _cancel(run.pk)


async def _cancel(run_id: str) -> None:
    await retry.write(lifecycle.finish, run_id, Run.Status.CANCELLED)
