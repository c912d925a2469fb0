"""Attempts carried out in this process, some at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

PATIENCE = 5.0
"""Seconds that cancelled attempts have to let go."""


class Executor:
    """Carries attempts out as tasks of this event loop, at most `parallelism` at once."""

    def __init__(self, work: Callable[[int], Awaitable[None]], parallelism: int) -> None:
        self._work = work
        self._room = asyncio.Semaphore(parallelism)
        self._tasks: set[asyncio.Task[None]] = set()

    def enqueue(self, attempt_pk: int) -> None:
        """Carry out an attempt when there is room."""
        self._tasks.add(asyncio.create_task(self._carry_out(attempt_pk), name=f"attempt-{attempt_pk}"))

    async def join(self) -> None:
        """Return when nothing is left to do.

        Raises:
            Exception: what carrying an attempt out raised beside its outcome, such as a store that is gone.
        """
        if self._tasks:
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()

    async def stop(self) -> None:
        """Cancel what runs and forget what waits. An agent that does not let go in time is left behind."""
        left = [task for task in self._tasks if not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=PATIENCE)

    async def _carry_out(self, attempt_pk: int) -> None:
        async with self._room:
            await self._work(attempt_pk)
