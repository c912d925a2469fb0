"""The tests' store: its URL for other processes, and cleanup after threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Barrier

from django.db import connection, transaction
from django.test import TransactionTestCase

from sessions_app.store.database import units_of_work
from tests.patience import PATIENCE_S


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


@contextmanager
def saved_rows() -> Iterator[Callable[[], None]]:
    """Set the rows of the store aside and empty it; yield a function that inserts them again, for each test anew.

    For rows that take long to make: a test then starts with them as if it had made them itself.
    """
    quote = connection.ops.quote_name
    tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
    copies = {quote(table): quote(f"saved_{table}") for table in tables}
    with transaction.atomic(), connection.cursor() as cursor:
        for table, copy in copies.items():
            cursor.execute(f"CREATE TABLE {copy} AS SELECT * FROM {table}")
    TransactionTestCase()._fixture_teardown()

    def insert_rows() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            for table, copy in copies.items():
                cursor.execute(f"INSERT INTO {table} SELECT * FROM {copy}")

    try:
        yield insert_rows
    finally:
        with connection.cursor() as cursor:
            for copy in copies.values():
                cursor.execute(f"DROP TABLE {copy}")
