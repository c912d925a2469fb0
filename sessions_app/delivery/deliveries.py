"""The rows that this process is delivering to processes of their apps.

One task at a time delivers a row. It ends in one of four ways: a process takes the row, the row has ended, the row is
ended here with a reason, or the server stops and the row waits for the next server. Apart from cancellations, nothing
else ends a row during its delivery.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar

from django.db import DatabaseError

from sessions_app.delivery.failure import Failure
from sessions_app.delivery.process_tries import ProcessEnded, ProcessTries
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.errors import DevUIError, RuntimeUnavailable, ServerStopping, StoreFault

TAKE_S = 3.0
"""Seconds to wait for a process to take a row. A blocked process takes it later; it stays queued meanwhile."""

UNEXPECTED = Failure("", "The run could not be delivered.", hint="The server's log has the cause.")

log = logging.getLogger(__name__)


class Delivery(ABC):
    """A row on its way to a process of its app. `key` is its primary key."""

    retried: ClassVar[type[RuntimeUnavailable]] = ProcessEnded
    """Errors of `send` after which the next process is asked."""

    def __init__(self, app_name: str, key: str) -> None:
        self.app_name = app_name
        self.key = key

    @abstractmethod
    async def send(self) -> None:
        """Send the row to the process. A row that has ended is left alone."""

    @abstractmethod
    def end(self, failure: Failure, ended_processes: int) -> object:
        """End the row if it still waits. `ended_processes`: those that ended before they had taken it."""

    def release(self) -> object:
        """Leave the row to the next server. By default that finds it as it is."""
        return None


class Deliveries:
    """The deliveries of one process."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._tries: dict[str, ProcessTries] = {}

    async def deliver(self, delivery: Delivery) -> None:
        """Deliver a row. Waits at most `TAKE_S`; the delivery continues in the background.

        Raises:
            DevUIError: no process can take the row, which has the reason.
            ServerStopping: the row waits for the next server.
        """
        delivering = self.start(delivery)
        await asyncio.wait([delivering], timeout=TAKE_S)
        if delivering.cancelled():
            raise ServerStopping
        if delivering.done():
            delivering.result()

    def start(self, delivery: Delivery) -> asyncio.Task[None]:
        """Deliver a row in a task of its own, unless one does."""
        if not self._is_being_delivered(delivery.key):
            task = asyncio.create_task(self._deliver_row(delivery))
            self._tasks[delivery.key] = task
            task.add_done_callback(lambda done: self._forget_delivery(delivery.key, done))
        return self._tasks[delivery.key]

    def redeliver(self, delivery: Delivery, end: ProcessEnded) -> None:
        """Deliver a row that an ended process did not start to the next one, unless a delivery is in progress."""
        if not self._is_being_delivered(delivery.key):
            self._tries.setdefault(delivery.key, ProcessTries(delivery.retried)).note_end(end)
            self.start(delivery)

    async def stop(self) -> None:
        """Stop all deliveries: their rows wait for the next server."""
        tasks, self._tasks = dict(self._tasks), {}
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)

    def _is_being_delivered(self, key: str) -> bool:
        """Tell whether a task is delivering a row. A finished task no longer counts."""
        return key in self._tasks and not self._tasks[key].done()

    def _forget_delivery(self, key: str, done: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is done:
            del self._tasks[key]
        if not done.cancelled() and (error := done.exception()):
            log.warning("A run could not be delivered: %s", error)

    async def _deliver_row(self, delivery: Delivery) -> None:
        tries = self._tries.pop(delivery.key, ProcessTries(delivery.retried))
        try:
            await tries.run(delivery.send)
        except (ServerStopping, asyncio.CancelledError):
            await _release_row(delivery)
            raise
        except Exception as error:
            failure = Failure.of(error)
            if not isinstance(error, DevUIError):
                log.exception("Run %s could not be delivered", delivery.key)
                failure = replace(UNEXPECTED, type=failure.type)
            await retry.write(delivery.end, failure, tries.ended)
            raise
        if tries.ended:  # the process that has taken the row may end as well before it starts it
            self._tries[delivery.key] = tries


async def _release_row(delivery: Delivery) -> None:
    """Leave a row to the next server.

    If the store does not accept that, because it fails or this server's row was deleted after a day of silence, the
    row belongs to its process, which ends with this server.
    """
    try:
        await units_of_work.write(delivery.release)
    except (StoreFault, DatabaseError) as error:
        log.warning("Run %s waits for the next server: %s", delivery.key, error)


deliveries = Deliveries()
"""The deliveries of this process."""
