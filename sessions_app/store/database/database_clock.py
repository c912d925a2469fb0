"""The store's clock. Hosts that share a PostgreSQL store may have clocks that differ."""

from __future__ import annotations

import time

from django.db import connection


def now() -> float:
    """Return the current time of PostgreSQL's host, or of this one with SQLite, in epoch seconds."""
    if connection.vendor != "postgresql":
        return time.time()
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        value: float = cursor.fetchone()[0]
        return value
