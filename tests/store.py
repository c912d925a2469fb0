"""The tests' store, as other processes are told of it."""

from __future__ import annotations

from django.db import connection


def store_url() -> str:
    """Return the URL of the tests' store, for the processes the tests start."""
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{database['NAME']}"
    account = f"{database['USER']}:{database['PASSWORD']}" if database["PASSWORD"] else database["USER"]
    return f"postgresql://{account}@{database['HOST']}:{database['PORT']}/{database['NAME']}"
