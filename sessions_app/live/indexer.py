"""Background task of the web process, or of a worker, that keeps the search index, problems and trends up to date."""

from __future__ import annotations

import asyncio
import logging
import time

from sessions_app.problems import session_checks
from sessions_app.search import indexing
from sessions_app.store.database import change_listener, units_of_work
from sessions_app.store.errors import DevUIError
from sessions_app.trends import rollup

PAUSE_S = 0.5
"""Seconds between a notification and indexing, so that several writes are indexed and announced together."""

POLL_S = 1.0
"""Polling interval on SQLite in seconds while nothing else needs notifications sooner, such as an open page."""

RECHECK_S = 60.0
"""Seconds between two looks without a notification."""

RETRY_S = 30.0
"""Pause in seconds after the store could not be read or written."""

log = logging.getLogger(__name__)


async def keep_indexed(*, retry_s: float = RETRY_S) -> None:
    """Index new events, check them for problems and count them in the trends, forever.

    Searches scan events that are not indexed yet.
    """
    async with change_listener.subscribe(recheck_s=RECHECK_S, poll_s=POLL_S) as ring:
        while True:
            try:
                await _catch_up()
            except DevUIError as error:
                log.warning("Search indexing is paused: %s %s", error.message, error.hint)
                await asyncio.sleep(retry_s)
            except Exception:  # else one damaged row would end the indexing of all sessions
                log.exception("Search indexing is paused by an unexpected error.")
                await asyncio.sleep(retry_s)
            await ring.wait()
            await asyncio.sleep(PAUSE_S)


async def _catch_up() -> None:
    """Index the whole backlog, pausing as long as it works, because runs and pages have priority."""
    while True:
        began = time.monotonic()
        pieces = await units_of_work.read(indexing.read_batches)
        for piece in pieces:
            await units_of_work.write(indexing.store_batches, [piece])
        checked = await units_of_work.read(session_checks.check_next)
        if checked:
            await units_of_work.write(session_checks.store, checked)
        is_idle = not pieces and not checked
        if is_idle and (batch := await units_of_work.read(rollup.read_batch)):
            await units_of_work.write(rollup.store, batch)
            is_idle = False
        if is_idle:
            return
        await asyncio.sleep(time.monotonic() - began)
