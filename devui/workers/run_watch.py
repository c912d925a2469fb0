"""Watches the rows of a worker's runs and attempts: notifies jobs of their ends, and cancels runs on request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TypeVar

from django.db.models import Q

from evals_app.models import EvalAttempt
from sessions_app.runs.background import BackgroundTasks
from sessions_app.runs.pauses import IS_PAUSED
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.database.change_listener import subscribe
from sessions_app.store.errors import DevUIError, StoreFault
from sessions_app.store.models import Run

PAUSE_S = 0.05
"""Minimum seconds between two reads while a conversation run waits for its end, however many changes there are."""

CALM_PAUSE_S = 0.2
"""The same while none does: each event of an eval attempt is a change."""

log = logging.getLogger(__name__)

K = TypeVar("K", str, int)

_Waits = set[tuple[K, asyncio.Event]]
"""Waits in progress: the key of what each waits for, and the event that ends it."""

Cancel = Callable[[str, str], Awaitable[None]]
"""Cancels a run (app, run id) and returns when its row has the end."""


class WorkerRunWatch:
    """The runs of one worker. `server_id`: the worker's id, in the rows of its processes."""

    def __init__(self, server_id: str, cancel: Cancel) -> None:
        self._server_id = server_id
        self._cancel = cancel
        self._ends: _Waits[str] = set()
        self._attempt_cancels: _Waits[int] = set()
        self._cancelling: set[str] = set()
        self._tasks = BackgroundTasks()
        self._has_news = asyncio.Event()

    async def wait_until_gone(self, run_id: str) -> None:
        """Return when a run of this worker has ended or paused, or another worker has taken it."""
        self._has_news.set()
        await _wait_for(run_id, self._ends)

    async def wait_until_idle(self) -> None:
        """Return when no process of this worker executes a run. Paused runs do not count."""
        async with subscribe(poll_s=CALM_PAUSE_S) as changes:
            while await retry.read(_is_busy, self._server_id):
                await changes.wait()

    async def wait_until_cancelled(self, attempt_pk: int) -> None:
        """Return when an attempt that this worker executes is to end, by a person's request or with its run."""
        self._has_news.set()
        await _wait_for(attempt_pk, self._attempt_cancels)

    async def follow(self) -> None:
        """Watch until cancelled."""
        async with subscribe() as notifications:
            while True:
                try:
                    await self._check_runs()
                except StoreFault as fault:
                    log.warning("The runs of this worker cannot be watched; retrying: %s", fault.message)
                except Exception:
                    log.exception("The runs of this worker cannot be watched; retrying.")
                await asyncio.sleep(PAUSE_S if self._ends else CALM_PAUSE_S)
                await self._wait_for_news(notifications.wait())

    async def close(self) -> None:
        """Stop cancelling."""
        await self._tasks.cancel()

    async def _wait_for_news(self, change: Awaitable[None]) -> None:
        waits = {asyncio.ensure_future(change), asyncio.ensure_future(self._has_news.wait())}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        self._has_news.clear()
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

    async def _check_runs(self) -> None:
        ends = set(self._ends)
        current = await units_of_work.read(_current_runs, {run_id for run_id, _ in ends}, self._server_id)
        _end_waits(end for run_id, end in ends if run_id not in current)
        if cancels := set(self._attempt_cancels):
            cancelled = await units_of_work.read(_cancelled_attempts, {pk for pk, _ in cancels})
            _end_waits(cancel for pk, cancel in cancels if pk in cancelled)
        for run_id, app_name in await units_of_work.read(_cancel_requests, self._server_id):
            if run_id not in self._cancelling:
                self._cancelling.add(run_id)
                self._tasks.start(self._cancel_run(app_name, run_id))

    async def _cancel_run(self, app_name: str, run_id: str) -> None:
        try:
            await self._cancel(app_name, run_id)
        except DevUIError as error:
            log.warning("Run %s could not be cancelled; retrying: %s", run_id, error.message)
        finally:
            self._cancelling.discard(run_id)


async def _wait_for(key: K, waits: _Waits[K]) -> None:
    """Wait until `_end_waits` ends this wait. A job that is delivered twice waits twice for the same key."""
    end = asyncio.Event()
    waits.add((key, end))
    try:
        await end.wait()
    finally:
        waits.remove((key, end))


def _end_waits(ends: Iterable[asyncio.Event]) -> None:
    for end in ends:
        end.set()


def _current_runs(run_ids: Collection[str], server_id: str) -> set[str]:
    """Return those of the runs that are active and this server's, or on their way to it.

    A paused run is left out: it waits for a person, and its job must not take a slot that others wait for.
    """
    runs = Run.objects.filter(~IS_PAUSED, pk__in=run_ids, status__in=Run.ACTIVE)
    rows = runs.values_list("pk", "runtime_id", "runtime__server_id")
    return {run_id for run_id, runtime_id, owner in rows if server_id in (runtime_id, owner)}


def _is_busy(server_id: str) -> bool:
    """Tell whether a process of the server executes a run that is not paused."""
    runs = Run.objects.filter(~IS_PAUSED, runtime__server_id=server_id, status=Run.Status.RUNNING)
    return runs.exists()


def _cancelled_attempts(attempt_pks: Collection[int]) -> set[int]:
    """Return those of the attempts that have been cancelled or are to be."""
    is_requested = Q(status=EvalAttempt.Status.RUNNING, cancel_requested_at__isnull=False)
    cancelled = EvalAttempt.objects.filter(is_requested | Q(status=EvalAttempt.Status.CANCELLED))
    return set(cancelled.filter(pk__in=attempt_pks).values_list("pk", flat=True))


def _cancel_requests(server_id: str) -> list[tuple[str, str]]:
    """Return (run id, app name) of the server's active runs for which cancellation was requested."""
    runs = Run.objects.filter(
        runtime__server_id=server_id, status__in=Run.ACTIVE, cancel_requested_at__isnull=False
    )
    return list(runs.values_list("pk", "session__app_name"))
