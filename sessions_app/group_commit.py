"""One writing thread that commits what is waiting as a group.

SQLite has one writer, and with many appends at once most of the time goes into commits and into handing the
interpreter between the event loop and the writing thread. Taking all that waits into one transaction more than
doubles the appends per second (see `benchmarks/`), and a lone append pays nothing for it. A unit of work opens a
transaction itself; inside a group that is a savepoint, so one that is refused fails alone.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from django.db import InterfaceError, OperationalError, connection, connections, transaction

MAX_GROUP = 64
"""Most units of work in one transaction: bounds how long readers of the group's rows and its callers wait."""


@dataclass(slots=True)
class _Job:
    """A unit of work, the context it was asked in, and where its outcome goes."""

    work: Callable[[], Any]
    context: contextvars.Context
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    value: Any = None
    error: BaseException | None = None

    def run(self) -> None:
        """Run and keep the outcome until the commit."""
        try:
            self.value = self.context.run(self.work)
        except BaseException as error:
            self.error = error

    def settle(self) -> None:
        if self.future.cancelled():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.value)


@dataclass(slots=True)
class GroupCommitter:
    """The writing thread of a process."""

    _jobs: SimpleQueue[_Job | None] = field(default_factory=SimpleQueue)
    _thread: threading.Thread | None = None

    async def submit(self, work: Callable[[], Any]) -> Any:
        """Run `work` in the writing thread and return its value once the group has committed.

        Raises:
            Exception: what `work` raised, or what the commit raised.
        """
        loop = asyncio.get_running_loop()
        job = _Job(work, contextvars.copy_context(), loop, loop.create_future())
        self._start()
        self._jobs.put(job)
        return await job.future

    def close(self) -> None:
        """Finish what waits, close the thread's connections and end it."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="devui-write", daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        try:
            while (group := self._next_group()) is not None:
                _commit(group)
                _deliver(group)
        finally:
            connections.close_all()

    def _next_group(self) -> list[_Job] | None:
        """Wait for a unit of work and take all that wait behind it; None when the thread is to end."""
        job = self._jobs.get()
        if job is None:
            return None
        group = [job]
        while len(group) < MAX_GROUP:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                break
            if job is None:
                self._jobs.put(None)
                break
            group.append(job)
        return group


def _commit(group: list[_Job]) -> None:
    """Run a group's jobs in one transaction. A failing commit fails them all: none of them is in the store."""
    if len(group) == 1:
        group[0].run()
        _drop_lost_connection(group[0].error)
        return
    try:
        with transaction.atomic():
            for job in group:
                job.run()
                _refuse_lost_transaction(job.error)
    except BaseException as error:
        for job in group:
            job.error = job.error or error
        _drop_lost_connection(error)


def _refuse_lost_transaction(error: BaseException | None) -> None:
    """Fail the whole group when a job's failure took the transaction with it, as a full disk can.

    Raises:
        BaseException: the job's. Without it the block would end in a silent rollback, and jobs that had run would
            be told that they are stored.
    """
    if error is not None and connection.needs_rollback:
        raise error


def _drop_lost_connection(error: BaseException | None) -> None:
    """After a failure of the database itself, drop the connection so that the next group opens a new one."""
    if isinstance(error, InterfaceError | OperationalError):
        connections.close_all()


def _deliver(group: list[_Job]) -> None:
    """Hand the outcomes to their loops, one wake-up a loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in group:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, jobs)


def _settle(jobs: list[_Job]) -> None:
    for job in jobs:
        job.settle()
