"""Heartbeat of a runtime in the store, and its end when its parent dies.

Both run in threads of their own, because an agent may block the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable

from django.db import Error, connections

from sessions_app.agent_processes import processes
from sessions_app.runs import lifecycle
from sessions_app.store.errors import StoreFault

EXIT_GRACE_S = 3.0
"""Seconds to end in order once the parent is gone; then the process is killed."""

log = logging.getLogger(__name__)


class Heartbeat(threading.Thread):
    """Records every few seconds that the process lives, and reads requests to cancel its runs."""

    def __init__(self, runtime_id: str, on_cancel: Callable[[str], None]) -> None:
        super().__init__(name="devui-heartbeat", daemon=True)
        self._runtime_id = runtime_id
        self._on_cancel = on_cancel
        self._stopped = threading.Event()

    def run(self) -> None:
        """Write heartbeats until stopped."""
        while not self._stopped.wait(processes.HEARTBEAT_S):
            try:
                processes.record_heartbeat(self._runtime_id)
                if processes.is_marked_stopped(self._runtime_id) and not self._stopped.is_set():
                    log.error("This process was silent for too long: its runs have ended or go on elsewhere.")
                    kill_process_group()
                for run_id in lifecycle.cancel_requests(self._runtime_id):
                    self._on_cancel(run_id)
            except (Error, StoreFault) as error:  # Error includes psycopg's InterfaceError
                log.warning("The store did not accept a heartbeat; retrying: %s", error)
                connections.close_all()
        connections.close_all()

    def stop(self) -> None:
        """Stop the heartbeat and wait for its thread."""
        self._stopped.set()
        self.join(timeout=EXIT_GRACE_S)


class Lifeline(threading.Thread):
    """Reads a pipe whose other end the parent holds, and ends the process when that end is closed."""

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop, on_cut: Callable[[], None]) -> None:
        super().__init__(name="devui-lifeline", daemon=True)
        self._fd = fd
        self._loop = loop
        self._on_cut = on_cut

    def run(self) -> None:
        """Wait for the end of the pipe, let the loop end in order, then kill the process group."""
        while os.read(self._fd, 4096):
            pass
        self._loop.call_soon_threadsafe(self._on_cut)
        threading.Event().wait(EXIT_GRACE_S)
        kill_process_group()


def force_exit_after(seconds: float) -> None:
    """Kill this process after so many seconds: threads, exit handlers and an unavailable store may block its end."""

    def end() -> None:
        threading.Event().wait(seconds)
        os._exit(1)

    threading.Thread(target=end, name="devui-end", daemon=True).start()


def kill_process_group() -> None:
    """Kill this process and all that it started. The parent made it the leader of its process group."""
    os.killpg(os.getpgrp(), signal.SIGKILL)


def read_line(fd: int) -> bytes:
    """Read one line from a pipe, and no byte beyond it.

    Raises:
        EOFError: the parent closed the pipe before the line ended.
    """
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(fd, 1)
        if not byte:
            raise EOFError("The parent closed the lifeline before it sent the config.")
        line += byte
    return bytes(line)
