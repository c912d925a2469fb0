"""Retry work on the store until it succeeds.

For writes that no caller would repeat, such as the end of a run, an attempt or a process. A database restart, a full
disk or another program's lock delays them; only the end of the process gives them up.

A write may have been stored although its acknowledgement was lost with the connection. Therefore retried work must be
idempotent: a second run leaves the changed row alone and recognizes its own change. Callers choose the time to write
before the first try.
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

from sessions_app.store.database import db_errors, units_of_work
from sessions_app.store.errors import StoreBusy, StoreFault, StoreUnavailable

P = ParamSpec("P")
R = TypeVar("R")

FIRST_DELAY_S = 0.2
"""Delay before the second try."""

MAX_DELAY_S = 2.0
"""Longest delay between two tries."""

Faults = type[StoreFault] | tuple[type[StoreFault], ...]

PASSING: Faults = (StoreUnavailable, StoreBusy)
"""Faults that pass by themselves. After others, such as a full disk, work for which a caller waits is not retried."""

log = logging.getLogger(__name__)


def delays() -> Iterator[float]:
    """Yield the delay before each further try, without end."""
    return (min(FIRST_DELAY_S * 2**number, MAX_DELAY_S) for number in itertools.count())


async def write(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call `units_of_work.write` until it succeeds. `work` may run again after it was stored.

    Raises:
        Exception: `work` failed for a reason other than the store.
    """
    return await run(partial(units_of_work.write, work, *args, **kwargs))


async def read(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call `units_of_work.read` until it succeeds.

    Raises:
        Exception: `work` failed for a reason other than the store.
    """
    return await run(partial(units_of_work.read, work, *args, **kwargs))


async def run(work: Callable[[], Awaitable[R]], faults: Faults = StoreFault) -> R:
    """Run async work until the store no longer fails with one of the `faults`.

    Raises:
        Exception: `work` failed for another reason.
    """
    outage = _OutageLog()
    for delay in delays():
        try:
            result = await work()
        except faults as fault:
            outage.note(fault)
            await asyncio.sleep(delay)
        else:
            break
    outage.end()
    return result


def run_sync(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run synchronous work on this thread's connection until the store no longer fails.

    Raises:
        Exception: `work` failed for a reason other than the store.
    """
    outage = _OutageLog()
    for delay in delays():
        try:
            with db_errors.translate_db_errors():
                result = work(*args, **kwargs)
        except StoreFault as fault:
            outage.note(fault)
            connections.close_all()
            time.sleep(delay)
        else:
            break
    outage.end()
    return result


class _OutageLog:
    """Logs the beginning and the end of a store outage."""

    def __init__(self) -> None:
        self._since: float | None = None

    def note(self, fault: StoreFault) -> None:
        """Record a failed try; log the first."""
        if self._since is None:
            self._since = time.monotonic()
            log.warning("%s Retrying until the store accepts the write.", fault.message)

    def end(self) -> None:
        """Record the successful try."""
        if self._since is not None:
            log.info("The store accepted the write after %.1f s.", time.monotonic() - self._since)
