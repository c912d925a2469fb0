"""A worker's row: its apps, address and heartbeat, and what people ask of the worker."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from importlib.metadata import version

from django.db import transaction

from devui.workers.models import Worker
from devui.workers.queues import keep_queue_alive
from sessions_app.agents.folder import AgentsFolder
from sessions_app.errors import NotFound
from sessions_app.runs import processes
from sessions_app.store import change_notification


class Order(Enum):
    """What a worker is to do, by its row."""

    TAKE_RUNS = auto()
    DRAIN = auto()
    """Finish its runs and take no more."""
    END = auto()
    """End at once: it was removed, and others have its work."""


def code_versions(folder: AgentsFolder) -> dict[str, str]:
    """Return the apps of a folder with the hash of their code."""
    versions = {}
    for name in folder.names():
        try:
            versions[name] = folder.code_version(name)
        except NotFound:  # removed meanwhile
            continue
    return versions


def create_row(worker_id: str, address: str, kinds: Iterable[str], concurrency: int) -> None:
    """Create the row of a worker that starts."""
    keep_queue_alive()
    Worker.objects.create(
        pk=worker_id,
        address=address,
        adk_version=version("google-adk"),
        kinds=",".join(kinds),
        concurrency=concurrency,
    )


def advertise(worker_id: str, apps: Mapping[str, str], *, engine_id: int | None, is_draining: bool) -> Order:
    """Write a worker's heartbeat and what it runs; return what it is to do.

    A worker that others thought gone is alive again, unless a person has removed it. A row that is missing was deleted
    long after its worker was thought gone.
    """
    with transaction.atomic():
        row = Worker.objects.select_for_update().filter(pk=worker_id, removed_at__isnull=True).first()
        if row is None:
            return Order.END
        keep_queue_alive()
        processes.mark_alive(worker_id)
        values = {
            "apps": json.dumps(apps),
            "engine_id": engine_id,
            "is_draining": is_draining or row.is_draining,
        }
        if any(getattr(row, name) != value for name, value in values.items()):
            Worker.objects.filter(pk=worker_id).update(**values)
            change_notification.notify_after_commit()
    return Order.DRAIN if values["is_draining"] else Order.TAKE_RUNS


def read_order(worker_id: str) -> Order:
    """Return what a worker is to do."""
    row = Worker.objects.filter(pk=worker_id, removed_at__isnull=True).only("is_draining").first()
    if row is None:
        return Order.END
    return Order.DRAIN if row.is_draining else Order.TAKE_RUNS


def withdraw(worker_id: str) -> None:
    """Record that a worker has ended in order. Its row stays until its jobs are known to be done."""
    Worker.objects.filter(pk=worker_id, removed_at__isnull=True).update(removed_at=time.time())
    change_notification.notify_after_commit()
