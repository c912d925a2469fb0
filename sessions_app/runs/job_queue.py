"""Jobs that deliver queued runs to workers on any host, in place of this process.

`devui.workers` registers a queue in web processes that have no runtimes of their own. A job carries only the id of a
run; its row decides whether there is something left to do. Jobs are written in the transaction that writes the row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

QUEUE_ID = "queue"
"""Primary key of the process row that owns the runs and attempts in a queue.

Runs belong to the process that will deliver them, so that others notice when it is gone. A run in a queue belongs to
no process that can end: every web process and worker keeps this row alive.
"""


class JobQueue(Protocol):
    """Writes jobs in the current transaction."""

    def defer_run(self, run_id: str, app_name: str, session_pk: int) -> None:
        """Have a worker with the app execute a queued run, after those of its session."""

    def defer_eval_run(self, run_id: str, app_name: str, code_version: str) -> None:
        """Have a worker with the app execute a pending eval run. `code_version`: the code it needs; empty: any."""


Explain = Callable[[Any], str]
"""Returns why a queued run or active eval run (`Run` or `EvalRun`) waits, as a sentence."""

_queue: JobQueue | None = None
_explain: Explain | None = None


def register(queue: JobQueue | None, explain: Explain | None = None) -> None:
    """Set the queue of this process, and what explains why runs in it wait; None: it delivers its runs itself."""
    global _queue, _explain
    _queue, _explain = queue, explain


def current_queue() -> JobQueue | None:
    """Return the queue of this process; None if it delivers its runs itself."""
    return _queue


def explain_waiting(run: Any) -> str:
    """Return why a queued run or active eval run waits; empty if this process delivers its runs itself."""
    return _explain(run) if _explain else ""
