"""Periodic cleanup: removes expired deleted sessions, leftover rows of killed forks, and the usage of past days."""

from __future__ import annotations

import asyncio
import logging
import time

from django.db import connections

from sessions_app.quotas import quota_enforcement
from sessions_app.sessions import deletion, purge

INTERVAL_S = 3600.0

log = logging.getLogger(__name__)


async def run_housekeeping(every_s: float = INTERVAL_S) -> None:
    """Clean up at the start and at intervals. Failures are logged and retried at the next interval."""
    while True:
        try:
            await asyncio.to_thread(clean_up)
        except Exception:
            log.exception("Deleted sessions could not be purged")
        await asyncio.sleep(every_s)


def clean_up() -> int:
    """Purge sessions whose time in the trash is over, in small batches, and past usage. Return their number."""
    try:
        quota_enforcement.remove_past_usage()
        purge.remove_abandoned()
        return purge.remove_deleted(time.time() - deletion.UNDO_S).finished
    finally:
        connections.close_all()
