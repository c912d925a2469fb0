"""Long work in short transactions: SQLite has one writer, and nobody's append may wait long for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

BATCH_S = 0.05
"""About how long one transaction is to take."""

FIRST_ROWS, MIN_ROWS, MAX_ROWS = 250, 25, 4_000
"""Rows of the first slice, and of any."""


class BatchedTransactions:
    """A series of short transactions. Between two of them SQLite's writer is free for as long as it was held.

    Attributes:
        rows: how many rows the next one should take: as many as fit into `SLICE_S`, by what the last ones took.
    """

    def __init__(self) -> None:
        """Begin with `FIRST` rows."""
        self.rows = FIRST_ROWS
        self._held_s = 0.0
        self._released = time.monotonic()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Run one transaction."""
        yield_writer(self._released + self._held_s - time.monotonic())
        with transaction.atomic():
            began = time.monotonic()  # behind the wait for the lock
            yield
        self._released = time.monotonic()
        self._held_s = self._released - began
        if self._held_s > BATCH_S:
            self.rows = max(MIN_ROWS, self.rows // 2)
        elif self._held_s < BATCH_S / 2:
            self.rows = min(MAX_ROWS, self.rows * 2)


def yield_writer(seconds: float) -> None:
    """Leave the writer to others for a while. PostgreSQL's do not wait for each other."""
    if seconds > 0 and connection.vendor == "sqlite":
        time.sleep(seconds)
