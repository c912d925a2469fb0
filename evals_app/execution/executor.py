"""The executor of the attempts of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from evals_app.execution.admission import PROCESS_ADMISSION, AttemptAdmission

CANCEL_GRACE_S = 5.0
"""Seconds that cancelled attempts have to end."""

AttemptWork = Callable[[int], Awaitable[None]]
"""Carries out the attempt of a key and writes its row. Raises only if the row cannot be written."""


class AttemptExecutor:
    """Carries out attempts of one run as tasks of this event loop, a limited number at a time.

    The row of an attempt and the row of its run hold the input and receive the result. A task that ignores its
    cancellation is left behind.
    """

    def __init__(
        self, work: AttemptWork, parallelism: int, admission: AttemptAdmission = PROCESS_ADMISSION
    ) -> None:
        self._work = work
        self._parallelism = parallelism
        self._admission = admission
        self._waiting: dict[int, bool] = {}
        self._running: dict[int, asyncio.Future[None]] = {}
        self._cancelled_tasks: set[asyncio.Future[None]] = set()
        self._failure: BaseException | None = None
        self._all_ended = asyncio.Event()
        self._all_ended.set()

    def enqueue(self, attempt_pk: int, *, alone: bool = False) -> None:
        """Carry out an attempt when there is capacity; `alone`: with no other attempt of any run in its process."""
        self._waiting[attempt_pk] = alone
        self._all_ended.clear()
        self._start_waiting_attempts()

    def cancel(self, attempt_pk: int) -> None:
        """Cancel an attempt that waits or runs; its place is free at once."""
        self._waiting.pop(attempt_pk, None)
        if task := self._running.pop(attempt_pk, None):
            self._cancelled_tasks.add(task)
            task.cancel()
            self._admission.leave(attempt_pk)
        self._start_waiting_attempts()

    def resize(self, parallelism: int) -> None:
        """Change how many attempts run at once; running ones are not stopped."""
        self._parallelism = parallelism
        self._start_waiting_attempts()

    async def join(self) -> None:
        """Return when no attempt waits or runs.

        Raises:
            Exception: an attempt could not be carried out, for example because the store is gone.
        """
        await self._all_ended.wait()
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """Cancel all attempts and wait up to `CANCEL_GRACE_S` for agents to end."""
        self._waiting.clear()
        self._admission.forget(self._start_waiting_attempts)
        for attempt_pk in list(self._running):
            self.cancel(attempt_pk)
        if self._cancelled_tasks:
            await asyncio.wait(self._cancelled_tasks, timeout=CANCEL_GRACE_S)

    def _start_waiting_attempts(self) -> None:
        while self._waiting and len(self._running) < self._parallelism and self._failure is None:
            attempt_pk, alone = next(iter(self._waiting.items()))
            if not self._admission.enter(attempt_pk, alone, self._start_waiting_attempts):
                break
            del self._waiting[attempt_pk]
            task = asyncio.ensure_future(self._work(attempt_pk))
            self._running[attempt_pk] = task
            task.add_done_callback(partial(self._note_task_end, attempt_pk))
        else:  # nothing waits that could begin, so the admission need not call back
            self._admission.forget(self._start_waiting_attempts)
        if self._failure is not None or not (self._waiting or self._running):
            self._all_ended.set()

    def _note_task_end(self, attempt_pk: int, task: asyncio.Future[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if task in self._cancelled_tasks:  # nobody waits for it any more
            self._cancelled_tasks.discard(task)
            return
        del self._running[attempt_pk]
        self._failure = self._failure or error  # before capacity frees: nothing else shall begin
        self._admission.leave(attempt_pk)
        self._start_waiting_attempts()
