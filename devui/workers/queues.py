"""Queues of jobs: their names, the jobs in them, and the row that owns runs in a queue."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from hashlib import sha256

from procrastinate.contrib.django import app as procrastinate_app
from procrastinate.types import JSONDict

from sessions_app.agent_processes import processes
from sessions_app.runs.job_queue import QUEUE_ID
from sessions_app.store.models import RuntimeProcess

RUN_TASK = "devui:run"
EVAL_RUN_TASK = "devui:eval_run"
IMPORT_TASK = "devui:import"
ATTEMPT_TASK = "devui:attempt"

CONVERSATIONS = "conversations"
EVALS = "evals"
KINDS = (CONVERSATIONS, EVALS)
"""Kinds of queues, as `worker --queues` names them."""

ATTEMPTS = "attempts"
"""Kind of the queues of eval attempts, which the workers that take eval runs take, too."""

CONVERSATION_PRIORITY = 1
"""People wait for conversations: a free slot takes them before attempts, whose priority is 0."""


class ProcrastinateQueue:
    """Writes jobs of Procrastinate in Django's transaction (`sessions_app.runs.job_queue.JobQueue`)."""

    def defer_run(self, run_id: str, app_name: str, session_pk: int) -> None:
        """Queue a conversation run. Runs of one session share a lock, so that waiting ones occupy no slot."""
        job = procrastinate_app.configure_task(
            RUN_TASK,
            queue=queue_name(CONVERSATIONS, app_name),
            lock=f"session:{session_pk}",
            priority=CONVERSATION_PRIORITY,
            allow_unknown=True,
        )
        job.defer(run_id=run_id)

    def defer_eval_run(self, run_id: str, app_name: str, code_version: str) -> None:
        """Queue an eval run for the workers with this code; empty: with any."""
        queue = queue_name(EVALS, app_name, code_version)
        procrastinate_app.configure_task(EVAL_RUN_TASK, queue=queue, allow_unknown=True).defer(run_id=run_id)

    def defer_attempts(self, attempt_pks: Iterable[int], queue: str) -> None:
        """Queue eval attempts."""
        job = procrastinate_app.configure_task(ATTEMPT_TASK, queue=queue, allow_unknown=True)
        arguments: list[JSONDict] = [{"attempt_pk": pk} for pk in attempt_pks]
        job.batch_defer(*arguments)


def queue_name(kind: str, app_name: str, code_version: str = "") -> str:
    """Return the name of a queue.

    It is part of the name of a notification channel, which PostgreSQL limits to 63 bytes: app names are hashed.
    """
    app_hash = sha256(app_name.encode()).hexdigest()[:12]
    return f"{kind}:{app_hash}{f'@{code_version}' if code_version else ''}"


def attempt_queue(app_name: str, code_version: str, adk_version: str) -> str:
    """Return the queue of the attempts of an eval run. All of its attempts have the same code and the same ADK."""
    return queue_name(ATTEMPTS, app_name, sha256(f"{code_version} {adk_version}".encode()).hexdigest()[:16])


def list_queues(apps: Mapping[str, str], kinds: Iterable[str]) -> list[str]:
    """Return the queues that a worker with these apps (name → code version) takes runs from."""
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
