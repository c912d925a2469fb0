"""The two kinds of stores, for code outside of the store that must know which one it uses."""

from __future__ import annotations

from django.db import connection


def is_file_store() -> bool:
    """Tell whether the store is an SQLite file, which has one writer at a time; else it is a PostgreSQL server."""
    return connection.vendor == "sqlite"
