"""Units of work: run a synchronous function on the store from async code, in one transaction and one thread hop.

Django runs all async database access of a process in one thread, where a long read would stall every append. Here
reads have a small thread pool. Writes have one thread on SQLite, which commits waiting units as a group. On
PostgreSQL writes have a pool, and requests that compete for the same rows have their own threads, which also commit
as a group (`write_together`). Threads start lazily per process id, so that a forked process never inherits a
connection.
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

from sessions_app.store.database import db_errors
from sessions_app.store.database.group_commit import GroupCommitter, Job, run_units

P = ParamSpec("P")
Q = TypeVar("Q")
R = TypeVar("R")

READ_THREADS = 4
WRITE_THREADS = 4
GROUP_THREADS = 2
"""While one thread waits for a commit or a row lock, the other takes new requests."""
BATCH_THREADS = 2

_pools: dict[tuple[int, str], _Pool] = {}
_committers: dict[tuple[int, object], GroupCommitter] = {}


async def write(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a unit of work that writes, in one transaction. Cancelling the caller does not undo it.

    Raises:
        StoreFault: see `db_errors`; also what `work` raises.
    """
    unit = partial(work, *args, **kwargs)
    if connection.vendor == "sqlite":
        with db_errors.translate_db_errors():
            result: R = await _find_committer(run_units, run_units, 1).submit(unit)
        return result
    # Without the shield a pool drops a unit whose caller is cancelled while it is queued.
    return await asyncio.shield(asyncio.ensure_future(_run_in_pool("write", WRITE_THREADS, unit)))


def write_in_thread(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a unit of work that writes, in one transaction, and wait for it in a thread without an event loop.

    Raises:
        StoreFault: see `db_errors`; also what `work` raises.
    """
    unit = partial(work, *args, **kwargs)
    with db_errors.translate_db_errors():
        if connection.vendor != "sqlite":
            return _run_on_live_connection(unit)
        result: R = _find_committer(run_units, run_units, 1).submit_and_wait(unit)
    return result


async def write_together(work: Callable[[list[Q]], list[R]], request: Q) -> R:
    """Run `work` with a request and all waiting requests for the same `work`. Cancelling the caller does not undo it.

    `work` commits by itself and returns a value for each request, in order. If it raises, all its callers fail.

    Raises:
        StoreFault: see `db_errors`; also what `work` raises.
    """
    with db_errors.translate_db_errors():
        result: R = await _find_committer(work, partial(_commit_together, work), GROUP_THREADS).submit(
            request
        )
    return result


def _commit_together(work: Callable[[list[Any]], list[Any]], group: list[Job]) -> list[Job]:
    values = _run_on_live_connection(partial(work, [job.request for job in group]))
    for job, value in zip(group, values, strict=True):
        job.value = value
    return []


async def read(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a unit of work that only reads, in the pool of reading threads.

    Raises:
        StoreFault: see `db_errors`; also what `work` raises.
    """
    return await _run_in_pool("read", READ_THREADS, partial(work, *args, **kwargs))


async def run_batched(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run long work that commits in short transactions of its own, without delaying appends and reads.

    Cancelling the caller does not end it.

    Raises:
        StoreFault: see `db_errors`; also what `work` raises.
    """
    return await asyncio.shield(
        asyncio.ensure_future(_run_in_pool("batches", BATCH_THREADS, partial(work, *args, **kwargs)))
    )


async def _run_in_pool(name: str, threads: int, work: Callable[[], R]) -> R:
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    with db_errors.translate_db_errors():
        return await loop.run_in_executor(
            _find_pool(name, threads).executor, context.run, _run_on_live_connection, work
        )


def _run_on_live_connection(work: Callable[[], R]) -> R:
    """Run `work`. Close a lost connection before and after, so that the next use opens a new one."""
    if _is_connection_lost():
        connection.close()
    try:
        return work()
    except (OperationalError, InterfaceError):
        connections.close_all()
        raise


def _is_connection_lost() -> bool:
    """Tell whether the server has closed this thread's idle connection, for example by a restart.

    A server that closes a connection sends a message, so the connection is tested only if its socket is readable.
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


def _find_pool(name: str, threads: int) -> _Pool:
    key = (os.getpid(), name)
    if key not in _pools:
        _pools[key] = _Pool(ThreadPoolExecutor(threads, thread_name_prefix=f"devui-{name}"), threads)
    return _pools[key]


def _find_committer(
    kind: object, carry_out: Callable[[list[Job]], list[Job]], threads: int
) -> GroupCommitter:
    return _committers.setdefault((os.getpid(), kind), GroupCommitter(carry_out, threads))


def close_pools() -> None:
    """Close this process's threads and their connections, at shutdown and between tests."""
    for key in [key for key in _pools if key[0] == os.getpid()]:
        _pools.pop(key).close()
    for kind in [kind for kind in _committers if kind[0] == os.getpid()]:
        _committers.pop(kind).close()
