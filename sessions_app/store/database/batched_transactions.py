"""Split long work into short transactions, so that appends need not wait long for SQLite's only writer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction

from sessions_app.store.database.store_kind import is_file_store

BATCH_S = 0.05
"""Target duration of one transaction."""

FIRST_ROWS, MIN_ROWS, MAX_ROWS = 250, 25, 4_000
"""Rows of the first transaction, and the bounds for any."""


class BatchedTransactions:
    """A series of short transactions. Each is followed by a pause as long as the transaction took.

    Attributes:
        rows: rows that the next transaction should write to take about `BATCH_S`.
    """

    def __init__(self) -> None:
        """Start with `FIRST_ROWS`."""
        self.rows = FIRST_ROWS
        self._held_s = 0.0
        self._released = time.monotonic()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Run the block in a transaction, after the pause due since the last one."""
        yield_writer(self._released + self._held_s - time.monotonic())
        with transaction.atomic():
            began = time.monotonic()  # after the lock is taken
            yield
        self._released = time.monotonic()
        self._held_s = self._released - began
        if self._held_s > BATCH_S:
            self.rows = max(MIN_ROWS, self.rows // 2)
        elif self._held_s < BATCH_S / 2:
            self.rows = min(MAX_ROWS, self.rows * 2)


def yield_writer(seconds: float) -> None:
    """Sleep, on SQLite only, so that other writers get their turn."""
    if seconds > 0 and is_file_store():
        time.sleep(seconds)


@contextmanager
def short_transaction() -> Iterator[None]:
    """Run one transaction, then leave SQLite's only write lock to others for as long as it was held."""
    began = time.monotonic()
    with transaction.atomic():
        yield
    if is_file_store():
        time.sleep(time.monotonic() - began)
