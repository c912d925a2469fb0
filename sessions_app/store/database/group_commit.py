"""Group commit: writer threads that run all waiting requests in one transaction.

With many concurrent appends most of the time goes into commits and thread switches. One transaction for all waiting
requests multiplies the appends per second (see `benchmarks/`) and costs a single append nothing. On SQLite, which has
one writer, a group consists of arbitrary units of work (`run_units`). Each unit opens its own transaction, which is a
savepoint inside the group's, so a unit that fails does not affect the others.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, connection, connections, transaction

from sessions_app.store.database import db_errors
from sessions_app.store.errors import StoreBusy

MAX_GROUP = 64
"""Most requests in one transaction. Bounds how long a caller waits for its group."""

MAX_WAIT_S = 30.0
"""SQLite's write lock timeout if Django's settings have none."""

SHORT_WAIT_S = 1.0
"""Jobs that waited in the queue for less than this get the full write lock timeout."""


@dataclass(slots=True)
class Job:
    """A request with the context and the future of its caller, and the caller's event loop, if it has one."""

    request: Any
    context: contextvars.Context
    loop: asyncio.AbstractEventLoop | None
    future: asyncio.Future[Any] | Future[Any]
    value: Any = None
    error: BaseException | None = None
    asked_at: float = field(default_factory=time.monotonic)

    @property
    def waited_s(self) -> float:
        """Seconds since the request was submitted."""
        return time.monotonic() - self.asked_at

    def settle(self) -> None:
        """Set the future's result or exception. Called in the job's event loop, if it has one."""
        if self.future.cancelled():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.value)


@dataclass(slots=True)
class GroupCommitter:
    """The writer threads of a process for one kind of request.

    Attributes:
        carry_out: commits a group of jobs and sets each job's value or error. Returns the jobs that must wait longer.
            Called in a writer thread.
        threads: number of threads. A free thread takes all waiting jobs.
    """

    carry_out: Callable[[list[Job]], list[Job]]
    threads: int = 1
    _jobs: SimpleQueue[Job | None] = field(default_factory=SimpleQueue)
    _started: list[threading.Thread] = field(default_factory=list)

    async def submit(self, request: Any) -> Any:
        """Return the value of a request once its group has committed. Cancelling the caller does not undo it.

        Raises:
            Exception: the request failed, or the commit did.
        """
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._enqueue_job(Job(request, contextvars.copy_context(), loop, future))
        return await future

    def submit_and_wait(self, request: Any) -> Any:
        """Return the value of a request once its group has committed. For threads without an event loop.

        Raises:
            Exception: the request failed, or the commit did.
        """
        future: Future[Any] = Future()
        self._enqueue_job(Job(request, contextvars.copy_context(), None, future))
        return future.result()

    def close(self) -> None:
        """Finish all waiting jobs, close the threads' connections and end the threads."""
        for _ in self._started:
            self._jobs.put(None)
        for thread in self._started:
            thread.join()
        self._started.clear()

    def _enqueue_job(self, job: Job) -> None:
        """Queue a job, after starting the threads if needed."""
        while len(self._started) < self.threads:
            thread = threading.Thread(target=self._serve_jobs, name="devui-write", daemon=True)
            self._started.append(thread)
            thread.start()
        self._jobs.put(job)

    def _serve_jobs(self) -> None:
        try:
            postponed: list[Job] = []
            while group := self._next_group(postponed):
                try:
                    postponed = self.carry_out(group)
                except BaseException as error:
                    postponed = []
                    _fail_jobs(group, error)
                _deliver_outcomes([job for job in group if job not in postponed])
        finally:
            connections.close_all()

    def _next_group(self, postponed: list[Job]) -> list[Job]:
        """Return the postponed jobs and those waiting behind them. Block if there are none. Empty: end the thread."""
        group = list(postponed)
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
    """Run units of work in one transaction. If the commit fails, all of them fail and nothing is stored.

    Return the jobs that may wait longer because another program holds the write lock; then no job of the group ran.
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
            _fail_jobs(failed, error)
            _drop_lost_connection(error)
            return [job for job in group if job not in failed]
    return []


def _timed_out(group: list[Job], error: BaseException) -> list[Job]:
    """Return the jobs to fail when the transaction could not begin; with a busy store only those out of time."""
    if not isinstance(db_errors.translate(error), StoreBusy):
        return group
    return [job for job in group if job.waited_s > _max_wait_s() - SHORT_WAIT_S] or group


def _max_wait_s() -> float:
    return float(connection.settings_dict["OPTIONS"].get("timeout", MAX_WAIT_S))


@contextmanager
def _limit_lock_wait(job: Job) -> Iterator[None]:
    """Reduce SQLite's lock timeout inside the block by the time that the oldest job has already waited.

    Otherwise jobs that queue behind a blocked one would wait for several full timeouts.
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
    """Set SQLite's lock timeout. Errors are ignored here: the unit of work meets and reports the same one."""
    with suppress(DatabaseError), connection.cursor() as cursor:
        cursor.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")


def _run_job(job: Job) -> None:
    """Run a unit of work and store its outcome in the job until the commit."""
    try:
        job.value = job.context.run(job.request)
    except BaseException as error:
        job.error = error


def _fail_jobs(group: list[Job], error: BaseException) -> None:
    """Set the error of all jobs that have none yet."""
    for job in group:
        job.error = job.error or error


def _refuse_lost_transaction(error: BaseException | None) -> None:
    """Fail the whole group if a job's error rolled the transaction back, as a full disk does.

    Raises:
        BaseException: the job's error. Without it the block would end in a silent rollback, and earlier jobs would
            be reported as stored.
    """
    if error is not None and connection.needs_rollback:
        raise error


def _drop_lost_connection(error: BaseException | None) -> None:
    """Close the connection after a database failure, so that the next group opens a new one."""
    if isinstance(error, InterfaceError | OperationalError):
        connections.close_all()


def _deliver_outcomes(group: list[Job]) -> None:
    """Deliver outcomes to their event loops, with one wake-up per loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in group:
        if job.loop is None:
            job.settle()
        else:
            by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs in by_loop.items():
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(_settle_jobs, jobs)


def _settle_jobs(jobs: list[Job]) -> None:
    for job in jobs:
        job.settle()
