"""The worker that keeps search up to date: in the web process, in the background, woken by the bell."""

from __future__ import annotations

import asyncio
import logging
import time

from sessions_app.errors import DevUIError
from sessions_app.search import indexing
from sessions_app.store import change_listener, units_of_work

PAUSE_S = 0.5
"""Between a ring and a look: what is written meanwhile is indexed with it, and pages are rung for it once."""

RETRY_S = 30.0
"""How long a worker rests that could not read or write the store."""

log = logging.getLogger(__name__)


async def keep_indexed() -> None:
    """Index what is written, for ever. Until it is, searches look at it themselves."""
    async with change_listener.subscribe() as ring:
        while True:
            try:
                await _catch_up()
            except DevUIError as error:
                log.warning("Search is not brought up to date for a while: %s %s", error.message, error.hint)
                await asyncio.sleep(RETRY_S)
            await ring.wait()
            await asyncio.sleep(PAUSE_S)


async def _catch_up() -> None:
    """Index everything that waits, resting as long as it works: runs and pages come first."""
    while True:
        began = time.monotonic()
        pieces = await units_of_work.read(indexing.read_batches)
        if not pieces:
            return
        for piece in pieces:
            await units_of_work.write(indexing.store_batches, [piece])
        await asyncio.sleep(time.monotonic() - began)
