"""Locks by name, for work that one transaction at a time may do in all processes."""

from __future__ import annotations

from django.db import connection


def take_lock(name: str) -> None:
    """Wait for a lock, which the end of the transaction releases.

    On SQLite the transaction already holds the only write lock.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])
