"""Writing threads that carry out what waits as a group, in one transaction.

With many appends at once most of the time goes into commits and into handing the interpreter between the event loop
and the writing thread. Taking all that waits into one transaction multiplies the appends per second (see
`benchmarks/`), and a lone append pays nothing for it. On SQLite, which has one writer, a group is made of any units of
work (`run_units`). A unit opens a transaction itself; inside a group that is a savepoint, so one that is refused fails
alone.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, connection, connections, transaction

from sessions_app.errors import StoreBusy
from sessions_app.store import db_errors

MAX_GROUP = 64
"""Most requests in one transaction: bounds how long readers of the group's rows and its callers wait."""

MAX_WAIT_S = 30.0
"""Seconds that SQLite waits for its write lock where Django's settings do not say it."""

SHORT_WAIT_S = 1.0
"""A unit of work that has waited no longer for its turn may wait for the write lock as long as the settings say."""


@dataclass(slots=True)
class Job:
    """A request, the context it was made in, and where its outcome goes."""

    request: Any
    context: contextvars.Context
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    value: Any = None
    error: BaseException | None = None
    asked_at: float = field(default_factory=time.monotonic)

    @property
    def waited_s(self) -> float:
        """How long ago it was asked for."""
        return time.monotonic() - self.asked_at

    def settle(self) -> None:
        """Hand the outcome to who waits for it. Called in the job's loop."""
        if self.future.cancelled():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.value)


@dataclass(slots=True)
class GroupCommitter:
    """The writing threads of a process for one kind of request.

    Attributes:
        carry_out: commits a group, and gives each of its jobs a value or an error, but those that it returns: they
            go on waiting. Called in a writing thread.
        threads: how many. Whichever is free takes all that waits.
    """

    carry_out: Callable[[list[Job]], list[Job]]
    threads: int = 1
    _jobs: SimpleQueue[Job | None] = field(default_factory=SimpleQueue)
    _started: list[threading.Thread] = field(default_factory=list)

    async def submit(self, request: Any) -> Any:
        """Return the value of a request once its group has committed. A cancelled caller does not undo it.

        Raises:
            Exception: the request's error, or what the commit raised.
        """
        loop = asyncio.get_running_loop()
        job = Job(request, contextvars.copy_context(), loop, loop.create_future())
        self._start()
        self._jobs.put(job)
        return await job.future

    def close(self) -> None:
        """Finish what waits, close the threads' connections and end them."""
        for _ in self._started:
            self._jobs.put(None)
        for thread in self._started:
            thread.join()
        self._started.clear()

    def _start(self) -> None:
        while len(self._started) < self.threads:
            thread = threading.Thread(target=self._serve, name="devui-write", daemon=True)
            self._started.append(thread)
            thread.start()

    def _serve(self) -> None:
        try:
            left: list[Job] = []
            while group := self._next_group(left):
                try:
                    left = self.carry_out(group)
                except BaseException as error:
                    left = []
                    _fail(group, error)
                _deliver([job for job in group if job not in left])
        finally:
            connections.close_all()

    def _next_group(self, left: list[Job]) -> list[Job]:
        """Return what is left and what waits behind it; wait when nothing does. Empty: the thread is to end."""
        group = list(left)
        if not group:
            job = self._jobs.get()
            if job is None:
                return []
            group.append(job)
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


def run_units(group: list[Job]) -> list[Job]:
    """Run units of work in one transaction. A failing commit fails them all: none of them is in the store.

    Return those that may wait longer for a store that another program holds: none of the group has run then.
    """
    with _limit_lock_wait(group[0]):
        if len(group) == 1:
            _run_job(group[0])
            _drop_lost_connection(group[0].error)
            return []
        has_begun = False
        try:
            with transaction.atomic():
                has_begun = True
                for job in group:
                    _run_job(job)
                    _refuse_lost_transaction(job.error)
        except BaseException as error:
            failed = group if has_begun else _timed_out(group, error)
            _fail(failed, error)
            _drop_lost_connection(error)
            return [job for job in group if job not in failed]
    return []


def _timed_out(group: list[Job], error: BaseException) -> list[Job]:
    """Return the jobs that fail with the transaction that could not begin: of a lock, those that waited long."""
    if not isinstance(db_errors.translate(error), StoreBusy):
        return group
    return [job for job in group if job.waited_s > _max_wait_s() - SHORT_WAIT_S] or group


def _max_wait_s() -> float:
    return float(connection.settings_dict["OPTIONS"].get("timeout", MAX_WAIT_S))


@contextmanager
def _limit_lock_wait(job: Job) -> Iterator[None]:
    """Let SQLite wait for its write lock inside the block only as long as the oldest job may still wait.

    Jobs wait behind others that wait for the lock: without this for each of those as long once more.
    """
    waited = job.waited_s
    if waited < SHORT_WAIT_S:
        yield
        return
    _set_lock_timeout(max(_max_wait_s() - waited, 0.0))
    try:
        yield
    finally:
        _set_lock_timeout(_max_wait_s())


def _set_lock_timeout(seconds: float) -> None:
    """Set how long SQLite waits. A store that takes not even this fails the unit of work, which says why."""
    with suppress(DatabaseError), connection.cursor() as cursor:
        cursor.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")


def _run_job(job: Job) -> None:
    """Run a unit of work and keep its outcome until the commit."""
    try:
        job.value = job.context.run(job.request)
    except BaseException as error:
        job.error = error


def _fail(group: list[Job], error: BaseException) -> None:
    """Fail the jobs of a group that have no error of their own."""
    for job in group:
        job.error = job.error or error


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


def _deliver(group: list[Job]) -> None:
    """Hand the outcomes to their loops, one wake-up a loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in group:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs in by_loop.items():
        with suppress(RuntimeError):  # the loop has ended, and nobody waits there any more
            loop.call_soon_threadsafe(_settle_jobs, jobs)


def _settle_jobs(jobs: list[Job]) -> None:
    for job in jobs:
        job.settle()
