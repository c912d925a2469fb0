"""Units of work on the store from async code: one synchronous function, one transaction, one thread hop.

Django's default gives all async code of a process one thread, so a long read would stall every append. Here
reads have a small pool. Writes have one thread on SQLite, which has one writer, and it commits what waits as a
group; on PostgreSQL, whose writers do not wait for each other, they have a pool. Threads are started lazily per
process id, so that a fork never inherits a connection.
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
from typing import ParamSpec, TypeVar

from django.db import InterfaceError, OperationalError, connection, connections

from sessions_app import faults
from sessions_app.group_commit import GroupCommitter

P = ParamSpec("P")
R = TypeVar("R")

READ_THREADS = 4
WRITE_THREADS = 4
SLICING_THREADS = 2

_pools: dict[tuple[int, str], _Pool] = {}
_committers: dict[int, GroupCommitter] = {}


async def write(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a unit of work that writes, in one transaction. A cancelled caller does not undo it.

    Raises:
        StoreFault: see `faults`; also what `work` raises.
    """
    unit = partial(work, *args, **kwargs)
    if connection.vendor == "sqlite":
        with faults.explained():
            result: R = await _committer().submit(unit)
        return result
    # A pool drops a unit whose caller was cancelled before a thread was free.
    return await asyncio.shield(asyncio.ensure_future(_hop("write", WRITE_THREADS, unit)))


async def read(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a unit of work that only reads, in the small pool of reading threads.

    Raises:
        StoreFault: see `faults`; also what `work` raises.
    """
    return await _hop("read", READ_THREADS, partial(work, *args, **kwargs))


async def in_slices(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run long work that commits in short transactions of its own. Nobody's append or read waits behind it.

    A cancelled caller does not end it.

    Raises:
        StoreFault: see `faults`; also what `work` raises.
    """
    return await asyncio.shield(
        asyncio.ensure_future(_hop("slices", SLICING_THREADS, partial(work, *args, **kwargs)))
    )


async def _hop(name: str, threads: int, work: Callable[[], R]) -> R:
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    with faults.explained():
        return await loop.run_in_executor(
            _pool(name, threads).executor, context.run, _on_a_live_connection, work
        )


def _on_a_live_connection(work: Callable[[], R]) -> R:
    """Run `work`; a connection that was lost before, or is lost now, is dropped and the next use opens a new one."""
    if _was_lost():
        connection.close()
    try:
        return work()
    except (OperationalError, InterfaceError):
        connections.close_all()
        raise


def _was_lost() -> bool:
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


def _committer() -> GroupCommitter:
    return _committers.setdefault(os.getpid(), GroupCommitter())


def close_pools() -> None:
    """Close this process's threads and their connections, at shutdown and between tests."""
    for key in [key for key in _pools if key[0] == os.getpid()]:
        _pools.pop(key).close()
    if committer := _committers.pop(os.getpid(), None):
        committer.close()
