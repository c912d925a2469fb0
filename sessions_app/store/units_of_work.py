"""Units of work on the store from async code: one synchronous function, one transaction, one thread hop.

Django's default gives all async code of a process one thread, so a long read would stall every append. Here
reads have a small pool. Writes have one thread on SQLite, which has one writer, and it commits what waits as a
group; on PostgreSQL they have a pool, and requests that meet at the same rows have threads of their own, which commit
those that wait as a group (`write_together`). Threads are started lazily per process id, so that a fork never inherits
a connection.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import select
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar

from django.db import InterfaceError, OperationalError, connection, connections

from sessions_app.store import db_errors
from sessions_app.store.group_commit import GroupCommitter, Job, run_units

P = ParamSpec("P")
Q = TypeVar("Q")
R = TypeVar("R")

READ_THREADS = 4
WRITE_THREADS = 4
GROUP_THREADS = 2
"""While one waits for its commit to be on disk, or for a row, the other takes what comes."""
BATCH_THREADS = 2

_pools: dict[tuple[int, str], _Pool] = {}
_committers: dict[tuple[int, object], GroupCommitter] = {}


async def write(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a unit of work that writes, in one transaction. A cancelled caller does not undo it.

    Raises:
        StoreFault: see `faults`; also what `work` raises.
    """
    unit = partial(work, *args, **kwargs)
    if connection.vendor == "sqlite":
        with db_errors.translate_db_errors():
            result: R = await _committer(run_units, run_units, 1).submit(unit)
        return result
    # A pool drops a unit whose caller was cancelled before a thread was free.
    return await asyncio.shield(asyncio.ensure_future(_run_in_pool("write", WRITE_THREADS, unit)))


async def write_together(work: Callable[[list[Q]], list[R]], request: Q) -> R:
    """Have `work` carry out a request together with those of its kind that wait. A cancelled caller does not undo it.

    `work` commits by itself and returns a value for each request, in order. What it raises, all of them are told.

    Raises:
        StoreFault: see `faults`; also what `work` raises.
    """
    with db_errors.translate_db_errors():
        result: R = await _committer(work, partial(_commit_together, work), GROUP_THREADS).submit(request)
    return result


def _commit_together(work: Callable[[list[Any]], list[Any]], group: list[Job]) -> list[Job]:
    values = _run_on_live_connection(partial(work, [job.request for job in group]))
    for job, value in zip(group, values, strict=True):
        job.value = value
    return []


async def read(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a unit of work that only reads, in the small pool of reading threads.

    Raises:
        StoreFault: see `faults`; also what `work` raises.
    """
    return await _run_in_pool("read", READ_THREADS, partial(work, *args, **kwargs))


async def run_batched(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run long work that commits in short transactions of its own. Nobody's append or read waits behind it.

    A cancelled caller does not end it.

    Raises:
        StoreFault: see `faults`; also what `work` raises.
    """
    return await asyncio.shield(
        asyncio.ensure_future(_run_in_pool("slices", BATCH_THREADS, partial(work, *args, **kwargs)))
    )


async def _run_in_pool(name: str, threads: int, work: Callable[[], R]) -> R:
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    with db_errors.translate_db_errors():
        return await loop.run_in_executor(
            _pool(name, threads).executor, context.run, _run_on_live_connection, work
        )


def _run_on_live_connection(work: Callable[[], R]) -> R:
    """Run `work`; a connection that was lost before, or is lost now, is dropped and the next use opens a new one."""
    if _is_connection_lost():
        connection.close()
    try:
        return work()
    except (OperationalError, InterfaceError):
        connections.close_all()
        raise


def _is_connection_lost() -> bool:
    """Tell whether the server has ended this thread's idle connection, as a restart does: without a question to it.

    A server that ends a connection says so on its socket, so only a socket that has something to read is asked.
    """
    if connection.vendor != "postgresql" or connection.connection is None or connection.in_atomic_block:
        return False
    raw = connection.connection
    if raw.closed:
        return True
    waiting = select.poll()
    waiting.register(raw.fileno(), select.POLLIN)
    return bool(waiting.poll(0)) and not connection.is_usable()


@dataclass(frozen=True)
class _Pool:
    executor: ThreadPoolExecutor
    threads: int

    def close(self) -> None:
        together = threading.Barrier(self.threads)

        def close_own_connections() -> None:
            together.wait(timeout=10)
            connections.close_all()

        for _ in range(self.threads):
            self.executor.submit(close_own_connections)
        self.executor.shutdown(wait=True)


def _pool(name: str, threads: int) -> _Pool:
    key = (os.getpid(), name)
    if key not in _pools:
        _pools[key] = _Pool(ThreadPoolExecutor(threads, thread_name_prefix=f"devui-{name}"), threads)
    return _pools[key]


def _committer(kind: object, carry_out: Callable[[list[Job]], list[Job]], threads: int) -> GroupCommitter:
    return _committers.setdefault((os.getpid(), kind), GroupCommitter(carry_out, threads))


def close_pools() -> None:
    """Close this process's threads and their connections, at shutdown and between tests."""
    for key in [key for key in _pools if key[0] == os.getpid()]:
        _pools.pop(key).close()
    for kind in [kind for kind in _committers if kind[0] == os.getpid()]:
        _committers.pop(kind).close()
