"""Write-behind queue for records of runs: a thread writes the queued records in batches.

A run never waits for it and never fails because of it. While the store is unavailable, writes are retried; records
that the store rejects for another reason are dropped and logged.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

from django.db import connections, transaction

from sessions_app.store.database import db_errors, retry, units_of_work
from sessions_app.store.errors import StoreCorrupt, StoreFault

Unit = Callable[[], bool]
"""Writes a record, or a part of it, in one transaction. Returns False if it has to be called again."""

Make = Callable[[], Unit]
"""Prepares a record, in the outbox's thread and outside of transactions, so that appends do not wait for it."""

PAUSE_S = 0.2
"""Seconds that records wait to be batched with others."""

BATCH = 50
"""Maximum number of records in a transaction, since appends may wait for it."""

MAX_WAITING = 20_000
"""Maximum number of queued records; further ones are dropped."""

CLOSE_S = 2.0
"""Timeout in seconds for writing the remaining records when the process ends."""

log = logging.getLogger(__name__)


class Outbox:
    """Queue of this process's records that are not written yet."""

    def __init__(self) -> None:
        self._waiting: deque[Make] = deque()
        self._asked: deque[Future[None]] = deque()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._is_full = False

    def enqueue(self, make: Make) -> None:
        """Queue a record. Thread-safe; never raises, never blocks."""
        with self._lock:
            if len(self._waiting) >= MAX_WAITING:
                if not self._is_full:
                    log.error("The store is unavailable and the queue is full: records of runs are dropped.")
                self._is_full = True
                return
            self._is_full = False
            self._waiting.append(make)
            self._start_thread()
        self._wake.set()

    def flush(self) -> Future[None]:
        """Write the queued records at once; the future completes when they are written."""
        future: Future[None] = Future()
        with self._lock:
            self._asked.append(future)
            self._start_thread()
        self._hurry.set()
        self._wake.set()
        return future

    async def wait_written(self, within_s: float | None = None) -> bool:
        """Wait until the records queued so far are written. Return False after the timeout."""
        written = asyncio.wrap_future(self.flush())
        await asyncio.wait([written], timeout=within_s)
        return written.done()

    def close(self) -> None:
        """Write the remaining records within `CLOSE_S` and end the thread."""
        thread = self._thread
        if thread is None:
            return
        self._closing = True
        self._hurry.set()
        self._wake.set()
        thread.join(timeout=CLOSE_S)

    def _start_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve_writes, name="devui-outbox", daemon=True)
            self._thread.start()

    def _serve_writes(self) -> None:
        try:
            self._serve_until_closed()
        finally:
            connections.close_all()

    def _serve_until_closed(self) -> None:
        while not (self._closing and not self._waiting and not self._asked):
            self._wake.wait()
            self._hurry.wait(PAUSE_S)
            self._wake.clear()
            self._hurry.clear()
            self._write_all()

    def _write_all(self) -> None:
        with self._lock:
            futures, waiting = list(self._asked), list(self._waiting)
            self._asked.clear()
            self._waiting.clear()
        for start in range(0, len(waiting), BATCH):
            self._write_batch([unit for make in waiting[start : start + BATCH] if (unit := _make_unit(make))])
        for future in futures:
            if future.set_running_or_notify_cancel():
                future.set_result(None)

    def _write_batch(self, units: list[Unit]) -> None:
        """Write a batch. A rejected batch is written record by record, so that only the faulty record is dropped."""
        while units:
            unfinished = self._try_write(units)
            if unfinished is None:
                unfinished = [
                    unit for record in units if len(units) > 1 for unit in self._try_write([record]) or ()
                ]
            units = unfinished

    def _try_write(self, units: list[Unit]) -> list[Unit] | None:
        """Write units, with retries. Return the unfinished units; None if the store rejects them."""
        is_told = False
        for delay in retry.delays():
            try:
                return units_of_work.write_in_thread(_run_units, units)
            except Exception as error:
                if not _is_temporary(error):
                    if len(units) == 1:
                        log.exception(
                            "A record of a run could not be written and is dropped. The run continues."
                        )
                    return None
                if self._closing:
                    log.warning(
                        "%d records of runs are dropped because the process ends: %s", len(units), error
                    )
                    return []
                if not is_told:
                    log.warning("The store is unavailable; records of runs are queued: %s", error)
                    is_told = True
            time.sleep(delay)
        return None


def _is_temporary(error: Exception) -> bool:
    """Tell whether a retry may succeed: the store is unavailable, full or locked, but not damaged."""
    fault = error if isinstance(error, StoreFault) else db_errors.translate(error)
    return fault is not None and not isinstance(fault, StoreCorrupt)


def _make_unit(make: Make) -> Unit | None:
    try:
        return make()
    except Exception:
        log.exception("A record of a run could not be prepared and is dropped. The run continues.")
        return None


def _run_units(units: list[Unit]) -> list[Unit]:
    """Run units in one transaction. Return those that are not finished."""
    with transaction.atomic():
        return [unit for unit in units if not unit()]


_outboxes: dict[int, Outbox] = {}


def outbox() -> Outbox:
    """Return this process's outbox. A forked process has its own."""
    process_outbox = _outboxes.get(os.getpid())
    if process_outbox is None:
        process_outbox = _outboxes.setdefault(os.getpid(), Outbox())
    return process_outbox


def close() -> None:
    """Write the remaining records and end the thread, at the end of the process and between tests."""
    if (process_outbox := _outboxes.pop(os.getpid(), None)) is not None:
        with suppress(Exception):
            process_outbox.close()


atexit.register(close)
