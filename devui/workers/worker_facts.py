"""Facts about workers, read from their rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from devui.workers.models import Worker
from sessions_app.agent_processes import processes


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """A worker as its row describes it.

    Attributes:
        apps: app → hash of its code.
        kinds: kinds of queues from which it takes jobs.
        concurrency: its slots: conversation runs and attempts of eval runs at once.
        engine_id: its id in Procrastinate's table of workers.
        adk_version: its version of ADK.
    """

    id: str
    host: str
    address: str
    apps: Mapping[str, str]
    is_draining: bool
    kinds: tuple[str, ...] = ()
    concurrency: int = 1
    engine_id: int | None = None
    adk_version: str = ""

    @classmethod
    def from_row(cls, row: Worker) -> Self:
        """Return the worker of a row."""
        return cls(
            str(row.pk),
            row.process.host,
            row.address,
            json.loads(row.apps),
            row.is_draining,
            tuple(filter(None, row.kinds.split(","))),
            row.concurrency,
            row.engine_id,
            row.adk_version,
        )


def living_workers() -> list[WorkerFacts]:
    """Return the workers whose process is alive, oldest first."""
    rows = Worker.objects.select_related("process").filter(
        process__stopped_at__isnull=True, removed_at__isnull=True
    )
    return [
        WorkerFacts.from_row(row)
        for row in rows.order_by("process__started_at", "pk")
        if processes.is_alive(row.process)
    ]
