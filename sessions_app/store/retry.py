"""Retry work on the store until the store takes it.

For what nobody else would do again: the end of a run, of an attempt, of a process, and what leads to one. A restart
of the database, a full disk or a lock of another program delays it, and only the end of the process gives it up.

A write whose acknowledgement was lost with the connection may have been stored. So work that is retried here must
leave a row that it has changed already as it is, and recognize its own change where the answer matters: the caller
decides on the time that is written before the first try.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import ParamSpec, TypeVar

from django.db import connections

from sessions_app.errors import StoreFault
from sessions_app.store import db_errors, units_of_work

P = ParamSpec("P")
R = TypeVar("R")

FIRST_DELAY_S = 0.2
"""Seconds before the second try."""

MAX_DELAY_S = 2.0
"""Most seconds between two tries: what waits for a database goes on so soon after its restart."""

log = logging.getLogger(__name__)


def delays() -> Iterator[float]:
    """Yield the seconds to wait before each further try, without end."""
    return (min(FIRST_DELAY_S * 2**number, MAX_DELAY_S) for number in itertools.count())


async def write(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Do what `db.write` does, again until the store takes it. `work` may run although it was stored before.

    Raises:
        Exception: what `work` raises that is no fault of the store.
    """
    return await run(partial(units_of_work.write, work, *args, **kwargs))


async def read(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Do what `db.read` does, again until the store answers.

    Raises:
        Exception: what `work` raises that is no fault of the store.
    """
    return await run(partial(units_of_work.read, work, *args, **kwargs))


async def run(work: Callable[[], Awaitable[R]]) -> R:
    """Do work that uses the store until the store is not at fault.

    Raises:
        Exception: what `work` raises that is no fault of the store.
    """
    waiting = _OutageLog()
    for delay in delays():
        try:
            result = await work()
        except StoreFault as fault:
            waiting.note(fault)
            await asyncio.sleep(delay)
        else:
            break
    waiting.end()
    return result


def run_sync(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Do synchronous work on this thread's own connection, again until the store takes it.

    Raises:
        Exception: what `work` raises that is no fault of the store.
    """
    waiting = _OutageLog()
    for delay in delays():
        try:
            with db_errors.translate_db_errors():
                result = work(*args, **kwargs)
        except StoreFault as fault:
            waiting.note(fault)
            connections.close_all()
            time.sleep(delay)
        else:
            break
    waiting.end()
    return result


class _OutageLog:
    """Logs once that something waits for the store, and when that is over."""

    def __init__(self) -> None:
        self._since: float | None = None

    def note(self, fault: StoreFault) -> None:
        """Note a try that failed."""
        if self._since is None:
            self._since = time.monotonic()
            log.warning("%s It is tried again until the store takes it.", fault.message)

    def end(self) -> None:
        """Note the try that did not."""
        if self._since is not None:
            log.info("The store took it after %.1f s.", time.monotonic() - self._since)
