"""Queues of jobs: their names, the jobs in them, and the row that owns runs in a queue."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from hashlib import sha256

from procrastinate.contrib.django import app as procrastinate_app

from sessions_app.models import RuntimeProcess
from sessions_app.runs import processes

RUN_TASK = "devui:run"
EVAL_RUN_TASK = "devui:eval_run"

CONVERSATIONS = "conversations"
EVALS = "evals"
KINDS = (CONVERSATIONS, EVALS)
"""Kinds of queues, as `worker --queues` names them."""

QUEUE_ID = "queue"
"""Primary key of the process row that owns the runs in a queue.

Runs belong to the process that will deliver them, so that others notice when it is gone. A run in a queue belongs to
no process that can end: every web process and worker keeps this row alive.
"""


class ProcrastinateQueue:
    """Writes jobs of Procrastinate in Django's transaction (`sessions_app.runs.job_queue.JobQueue`)."""

    def defer_run(self, run_id: str, app_name: str, session_pk: int) -> None:
        """Queue a conversation run. Runs of one session share a lock, so that waiting ones occupy no slot."""
        job = procrastinate_app.configure_task(
            RUN_TASK,
            queue=queue_name(CONVERSATIONS, app_name),
            lock=f"session:{session_pk}",
            allow_unknown=True,
        )
        job.defer(run_id=run_id)

    def defer_eval_run(self, run_id: str, app_name: str, code_version: str) -> None:
        """Queue an eval run for the workers with this code; empty: with any."""
        queue = queue_name(EVALS, app_name, code_version)
        procrastinate_app.configure_task(EVAL_RUN_TASK, queue=queue, allow_unknown=True).defer(run_id=run_id)


def queue_name(kind: str, app_name: str, code_version: str = "") -> str:
    """Return the name of a queue.

    It is part of the name of a notification channel, which PostgreSQL limits to 63 bytes: app names are hashed.
    """
    app_hash = sha256(app_name.encode()).hexdigest()[:12]
    return f"{kind}:{app_hash}{f'@{code_version}' if code_version else ''}"


def queues_of(apps: Mapping[str, str], kinds: Iterable[str]) -> list[str]:
    """Return the queues that a worker with these apps (name → code version) takes jobs from."""
    return [
        queue_name(kind, app_name, code)
        for kind in kinds
        for app_name, code_version in sorted(apps.items())
        for code in ("", code_version)
    ]


def keep_queue_alive() -> None:
    """Refresh the heartbeat of the row that owns queued runs."""
    now = time.time()
    RuntimeProcess.objects.update_or_create(
        pk=QUEUE_ID,
        defaults={"heartbeat_at": now, "stopped_at": None},
        create_defaults={
            "app_name": processes.SERVER_APP,
            "host": "",
            "pid": 0,
            "started_at": now,
            "heartbeat_at": now,
        },
    )
