"""What the server does by itself beside serving.

Sessions that were deleted long enough ago are removed for good, and so is what killed processes have left of forks.
"""

from __future__ import annotations

import asyncio
import logging
import time

from django.db import connections

from sessions_app.sessions import deletion, purge

INTERVAL_S = 3600.0

log = logging.getLogger(__name__)


async def run_housekeeping(every_s: float = INTERVAL_S) -> None:
    """Clean up at the start and then again and again. What fails is tried again the next time."""
    while True:
        try:
            await asyncio.to_thread(clean_up)
        except Exception:
            log.exception("What was deleted could not be removed for good")
        await asyncio.sleep(every_s)


def clean_up() -> int:
    """Remove what was deleted long enough ago, in small batches. Return how many sessions that were."""
    try:
        purge.remove_abandoned()
        return purge.remove_deleted(time.time() - deletion.UNDO_S).finished
    finally:
        connections.close_all()
