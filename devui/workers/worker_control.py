"""Draining and removing workers on request of a person.

A worker reads its row after each change of the store, whatever its host. So both need no connection to it, and also
work for a worker that does not answer: other workers take over its runs, and it ends when it wakes.
"""

from __future__ import annotations

import time

from django.db import transaction
from django.db.models import Q

from devui.workers.models import Worker
from sessions_app.store.database import change_notification
from sessions_app.store.errors import NotFound
from sessions_app.store.models import RuntimeProcess


def find_worker(worker_id: str) -> Worker:
    """Return a worker that is not removed.

    Raises:
        NotFound: there is none with this id.
    """
    row = Worker.objects.select_related("process").filter(pk=worker_id, removed_at__isnull=True).first()
    if row is None:
        raise NotFound(
            f"There is no worker {worker_id!r}.",
            hint="It has ended or was removed. GET /api/v1/workers lists the workers.",
        )
    return row


def drain_worker(worker_id: str) -> None:
    """Let a worker finish its runs and take no more, as on SIGTERM. Then it ends.

    Raises:
        NotFound: there is no such worker.
    """
    with transaction.atomic():
        find_worker(worker_id)
        Worker.objects.filter(pk=worker_id).update(is_draining=True)
        change_notification.notify_after_commit()


def remove_worker(worker_id: str) -> None:
    """Stop listing a worker that is gone, or end a living one at once.

    Its processes count as gone from now on: other workers continue its eval runs and take what it had not begun, and
    its conversation runs crash.

    Raises:
        NotFound: there is no such worker.
    """
    with transaction.atomic():
        find_worker(worker_id)
        now = time.time()
        Worker.objects.filter(pk=worker_id).update(removed_at=now)
        of_worker = Q(pk=worker_id) | Q(server_id=worker_id)
        RuntimeProcess.objects.filter(of_worker, stopped_at__isnull=True).update(stopped_at=now)
        change_notification.notify_after_commit()
