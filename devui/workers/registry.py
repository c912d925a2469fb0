"""Living workers, read from their rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from devui.workers.models import Worker
from sessions_app.runs import processes


@dataclass(frozen=True, slots=True)
class LivingWorker:
    """A worker whose process is alive.

    Attributes:
        apps: app → hash of its code.
    """

    id: str
    host: str
    address: str
    apps: Mapping[str, str]
    is_draining: bool


def living_workers() -> list[LivingWorker]:
    """Return the workers whose process is alive, oldest first."""
    rows = Worker.objects.select_related("process").filter(process__stopped_at__isnull=True)
    return [
        LivingWorker(str(row.pk), row.process.host, row.address, json.loads(row.apps), row.is_draining)
        for row in rows.order_by("process__started_at", "pk")
        if processes.is_alive(row.process)
    ]
