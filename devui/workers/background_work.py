"""Indexing, checks for problems, roll-ups and purges, which one of the workers does for all.

Without workers the web process does them. The oldest living worker that takes runs does them, so that they are done
once. Two workers may overlap while one takes over from the other: each piece of work detects that it was done.
"""

from __future__ import annotations

from devui.workers.worker_facts import living_workers
from sessions_app.live.indexer import keep_indexed
from sessions_app.runs.background import BackgroundTasks
from sessions_app.sessions.housekeeping import run_housekeeping
from sessions_app.store.database import units_of_work


class BackgroundWork:
    """The background work of one worker."""

    def __init__(self, worker_id: str) -> None:
        self._worker_id = worker_id
        self._tasks = BackgroundTasks()

    async def take_turn(self) -> None:
        """Start the work if it is this worker's turn, else stop it."""
        is_turn = await units_of_work.read(_worker_on_turn) == self._worker_id
        if is_turn and not self._tasks:
            self._tasks.start(keep_indexed())
            self._tasks.start(run_housekeeping())
        elif not is_turn:
            await self.stop()

    async def stop(self) -> None:
        """Stop the work. What it has begun to write is completed."""
        await self._tasks.cancel()


def _worker_on_turn() -> str | None:
    return next((worker.id for worker in living_workers() if not worker.is_draining), None)
