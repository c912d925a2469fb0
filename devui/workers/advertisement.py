"""A worker's row: its apps, address and heartbeat."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib.metadata import version

from devui.workers.models import Worker
from devui.workers.queues import keep_queue_alive
from sessions_app.agents.folder import AgentsFolder
from sessions_app.errors import NotFound
from sessions_app.runs import processes
from sessions_app.store import change_notification


def code_versions(folder: AgentsFolder) -> dict[str, str]:
    """Return the apps of a folder with the hash of their code."""
    versions = {}
    for name in folder.names():
        try:
            versions[name] = folder.code_version(name)
        except NotFound:  # removed meanwhile
            continue
    return versions


def advertise(
    worker_id: str,
    address: str,
    apps: Mapping[str, str],
    *,
    kinds: Iterable[str],
    concurrency: int,
    engine_id: int | None,
    is_draining: bool,
) -> None:
    """Write a worker's row and heartbeat. Revives a worker that was marked as gone."""
    keep_queue_alive()
    processes.mark_alive(worker_id)
    values = {
        "address": address,
        "apps": json.dumps(apps),
        "adk_version": version("google-adk"),
        "kinds": ",".join(kinds),
        "concurrency": concurrency,
        "engine_id": engine_id,
        "is_draining": is_draining,
    }
    if not Worker.objects.filter(pk=worker_id, **values).exists():
        Worker.objects.update_or_create(pk=worker_id, defaults=values)
        change_notification.notify_after_commit()
