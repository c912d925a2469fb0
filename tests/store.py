"""The tests' store: its URL for other processes, and cleanup after threads."""

from __future__ import annotations

import os
from threading import Barrier

from django.db import connection

from sessions_app.store.database import units_of_work

PATIENCE_S = 60


def store_url() -> str:
    """Return the URL of the tests' store, for the processes the tests start."""
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{database['NAME']}"
    account = f"{database['USER']}:{database['PASSWORD']}" if database["PASSWORD"] else database["USER"]
    return f"postgresql://{account}@{database['HOST']}:{database['PORT']}/{database['NAME']}"


def finish_threads() -> None:
    """Wait until the threads of `db` have done what they were given, for the next test to start without their rows.

    Those of the pools stay, with their connections: opening them for each test took a third of the time of the
    store's tests on PostgreSQL.
    """
    for (process, _), pool in list(units_of_work._pools.items()):
        if process == os.getpid():
            all_free = Barrier(pool.threads)
            waits = [pool.executor.submit(all_free.wait, PATIENCE_S) for _ in range(pool.threads)]
            for wait in waits:
                wait.result()
    for key in [key for key in units_of_work._committers if key[0] == os.getpid()]:
        units_of_work._committers.pop(key).close()
