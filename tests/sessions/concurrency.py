"""Tasks that run in threads at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from django.db import connections

from sessions_app.store.errors import DevUIError
from tests.patience import PATIENCE_S

T = TypeVar("T")


def run_together(tasks: Iterable[Callable[[], T]]) -> list[T | DevUIError]:
    """Run tasks in threads that start at once; return their results or DevUIErrors, raise any other error."""
    jobs = list(tasks)
    start = Barrier(len(jobs))

    def run(task: Callable[[], T]) -> T | DevUIError:
        start.wait(timeout=PATIENCE_S)
        try:
            return task()
        except DevUIError as refusal:
            return refusal
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return [future.result(timeout=PATIENCE_S) for future in [pool.submit(run, job) for job in jobs]]
