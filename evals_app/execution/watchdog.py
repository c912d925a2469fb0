"""A watchdog thread that ends a process whose event loop an agent blocks."""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import sys
import threading
import time
import traceback
from pathlib import Path

from django.db import connection

from evals_app.runs.attempt_status import BLOCKED_PROCESS
from evals_app.runs.writes import crashes
from sessions_app.delivery.failure import Failure
from sessions_app.store.database.stopwatch import Stopwatch

CHECK_S = 1.0
"""Seconds between two checks."""

GRACE_S = 5.0
"""Seconds after which Python's fault handler ends the process if the thread could not."""

MAX_FAULT_TIMER_S = 1e6
"""Largest number of seconds that the fault handler accepts."""

STDERR_DESCRIPTOR = 2
"""Descriptor of the error stream: a replacement of `sys.stderr` may have none."""

EXIT_CODE = 70

log = logging.getLogger(__name__)


class Watchdog:
    """Ends the process when its event loop was blocked for longer than an attempt may take (`limit_s`; None: never).

    A tool that waits without `await` blocks every attempt of the process, and also their cancellation. An attempt that
    ran alone ends with an error that shows the blocking line. Of several attempts the culprit is unknown, so the next
    process runs them one at a time. C code that holds the interpreter lock, such as a regular expression with
    catastrophic backtracking, blocks the thread, too: then Python's fault handler ends the process.
    """

    def __init__(
        self, run_id: str, runtime_id: str | None, limit_s: float | None, stopwatch: Stopwatch
    ) -> None:
        self._run_id = run_id
        self._runtime_id = runtime_id
        self._limit_s = limit_s
        self._stopwatch = stopwatch
        self._beat_at = time.monotonic()
        self._done = threading.Event()
        self._loop_thread = threading.get_ident()

    async def __aenter__(self) -> Watchdog:
        """Start to watch the running event loop."""
        if self._limit_s is not None:
            threading.Thread(target=self._watch_loop, args=(self._limit_s,), daemon=True).start()
            self._beating = asyncio.ensure_future(self._beat_forever(self._limit_s))
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Stop watching."""
        self._done.set()
        if self._limit_s is not None:
            self._beating.cancel()
            faulthandler.cancel_dump_traceback_later()  # another run of the process sets it again with its next beat

    async def _beat_forever(self, limit_s: float) -> None:
        fault_after_s = min(limit_s + GRACE_S, MAX_FAULT_TIMER_S)
        while True:
            self._beat_at = time.monotonic()
            faulthandler.dump_traceback_later(fault_after_s, exit=True, file=STDERR_DESCRIPTOR)
            await asyncio.sleep(CHECK_S / 2)

    def _watch_loop(self, limit_s: float) -> None:
        while not self._done.wait(min(CHECK_S, limit_s)):
            blocked_s = time.monotonic() - self._beat_at
            if blocked_s > limit_s + CHECK_S:
                self._end_process(blocked_s)

    def _end_process(self, blocked_s: float) -> None:
        frames = traceback.extract_stack(sys._current_frames().get(self._loop_thread))
        stack, frame = "".join(frames.format()), frames[-1]
        why = (
            f"The process stood still in {frame.name} ({Path(frame.filename).name}, line {frame.lineno}): "
            f"code there waits without `await`, or computes for too long.\nIt had stood for {blocked_s:.0f} seconds."
        )
        try:
            failure = Failure(BLOCKED_PROCESS, why, stack)
            crashes.end_blocked(self._run_id, self._runtime_id, failure, self._stopwatch.now())
        finally:
            connection.close()
            log.error("%s It is ended. It stood here:\n%s", why, stack)
            os._exit(EXIT_CODE)
