"""A worker's row: what the worker writes there (apps, heartbeat), and the instructions that it reads from it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from importlib.metadata import version

from django.db import transaction

from devui.workers.models import Worker
from devui.workers.queues import keep_queue_alive
from sessions_app.agent_processes import processes
from sessions_app.agents.folder import AgentsFolder
from sessions_app.store.database import change_notification
from sessions_app.store.errors import NotFound


class Instruction(Enum):
    """The instruction in the row of a worker. People set `DRAIN` and `END` on the page of workers or by the API."""

    TAKE_RUNS = auto()
    DRAIN = auto()
    """Finish its runs and take no more."""
    END = auto()
    """End at once: it was removed, and other workers take over its runs."""


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
    """Create the row of a worker that starts. `concurrency`: its slots."""
    keep_queue_alive()
    Worker.objects.create(
        pk=worker_id,
        address=address,
        adk_version=version("google-adk"),
        kinds=",".join(kinds),
        concurrency=concurrency,
    )


def advertise(
    worker_id: str, apps: Mapping[str, str], *, engine_id: int | None, is_draining: bool
) -> Instruction:
    """Write a worker's heartbeat, apps and state into its row, and return its instruction.

    A worker that counted as gone is alive again, unless a person has removed it, or its row was deleted a day later.
    """
    with transaction.atomic():
        row = Worker.objects.select_for_update().filter(pk=worker_id, removed_at__isnull=True).first()
        if row is None:
            return Instruction.END
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
    return Instruction.DRAIN if values["is_draining"] else Instruction.TAKE_RUNS


def read_instruction(worker_id: str) -> Instruction:
    """Return the instruction of a worker."""
    row = Worker.objects.filter(pk=worker_id, removed_at__isnull=True).only("is_draining").first()
    if row is None:
        return Instruction.END
    return Instruction.DRAIN if row.is_draining else Instruction.TAKE_RUNS


def withdraw(worker_id: str) -> None:
    """Record that a worker has ended in order. Its row stays until its jobs are known to be done."""
    Worker.objects.filter(pk=worker_id, removed_at__isnull=True).update(removed_at=time.time())
    change_notification.notify_after_commit()
