"""Requeue runs and attempts whose worker is gone or whose job is lost.

Rows decide: a run that waits gets a new job, a conversation run in progress crashes, and an eval run continues with the
attempts that have not ended, while living workers keep executing theirs. Several workers may do this at the same time.
"""

from __future__ import annotations

import time

from django.db import transaction
from django.db.models import Q
from procrastinate.contrib.django.models import ProcrastinateJob

from devui.workers.models import Worker
from devui.workers.queues import ProcrastinateQueue, attempt_queue
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs.writes import crashes, offers
from evals_app.runs.writes import runs as eval_runs
from sessions_app.agent_processes import processes
from sessions_app.runs import lifecycle
from sessions_app.runs.job_queue import QUEUE_ID
from sessions_app.store.database.stopwatch import ChangeTimer
from sessions_app.store.models import Run

WITHOUT_JOB_S = 30.0
"""Age of a run in a queue from which a missing job counts as lost."""

UNFINISHED_JOBS = ("todo", "doing")

GONE = crashes.ProcessDeath("Its worker is gone.", by_itself=False)

OF_WORKERS = Q(runtime__server__isnull=False) | Q(runtime__app_name=processes.SERVER_APP)
"""Eval runs of workers and of their processes. They do not crash: other workers continue them."""

_offer_timer = ChangeTimer()
"""Tries of the attempts in the queue, by primary key."""


def take_over() -> None:
    """End the runs and processes without a living owner, and queue what can go on."""
    lifecycle.crash_orphans()  # which first marks the processes that are gone
    _repeat_attempts()
    _continue_eval_runs()
    _requeue_eval_runs()
    crashes.crash_orphans(spared=OF_WORKERS)
    _requeue_runs()
    _restore_jobs()
    _restore_attempt_jobs()


def list_gone_engine_ids() -> list[int]:
    """Return the ids in Procrastinate's table of the workers whose process is gone. Their jobs are to be retried."""
    gone = Worker.objects.filter(process__stopped_at__isnull=False, engine_id__isnull=False)
    return list(gone.values_list("engine_id", flat=True))


def _repeat_attempts() -> None:
    """Reset the attempts that processes of gone workers executed. Those of living workers are theirs to reset."""
    running = EvalAttempt.objects.filter(
        runtime__server__stopped_at__isnull=False, status=EvalAttempt.Status.RUNNING
    )
    for runtime_id in sorted(set(running.values_list("runtime_id", flat=True))):
        for run_id in crashes.continue_without_process(runtime_id, GONE):
            queue_eval_run(run_id)


def _continue_eval_runs() -> None:
    """Queue the eval runs whose coordinator is gone."""
    is_gone = Q(runtime__stopped_at__isnull=False, runtime__app_name=processes.SERVER_APP)
    running = EvalRun.objects.filter(is_gone, status=EvalRun.Status.RUNNING)
    for run_id in list(running.values_list("pk", flat=True)):
        if eval_runs.release_run(run_id) or crashes.continue_without_coordinator(run_id):
            queue_eval_run(run_id)


def _requeue_eval_runs() -> None:
    """Queue the pending eval runs that gone workers had taken."""
    pending = EvalRun.objects.filter(crashes.SERVER_GONE, status=EvalRun.Status.PENDING)
    for run_id in list(pending.values_list("pk", flat=True)):
        queue_eval_run(run_id)


def queue_eval_run(run_id: str) -> None:
    """Give a pending eval run to the queue of its code."""
    with transaction.atomic():
        pending = EvalRun.objects.filter(pk=run_id, status=EvalRun.Status.PENDING).exclude(
            runtime_id=QUEUE_ID
        )
        if pending.update(runtime_id=QUEUE_ID):
            run = EvalRun.objects.get(pk=run_id)
            ProcrastinateQueue().defer_eval_run(run.pk, run.app_name, run.code_version)


def _requeue_runs() -> None:
    for run_id, _ in lifecycle.abandoned_runs():
        with transaction.atomic():
            queued = Run.objects.filter(pk=run_id, status=Run.Status.QUEUED).exclude(runtime_id=QUEUE_ID)
            if queued.update(runtime_id=QUEUE_ID):
                _defer_run(Run.objects.select_related("session").get(pk=run_id))


def _restore_jobs() -> None:
    """Write the jobs of runs that have waited in a queue without one."""
    long_ago = time.time() - WITHOUT_JOB_S
    runs = Run.objects.filter(runtime_id=QUEUE_ID, status=Run.Status.QUEUED, created_at__lt=long_ago)
    for run in runs.select_related("session"):
        if not _has_job(run.pk):
            _defer_run(run)
    pending = EvalRun.objects.filter(
        runtime_id=QUEUE_ID, status=EvalRun.Status.PENDING, queued_at__lt=long_ago
    )
    for eval_run in pending.only("app_name", "code_version"):
        if not _has_job(eval_run.pk):
            ProcrastinateQueue().defer_eval_run(eval_run.pk, eval_run.app_name, eval_run.code_version)


def _restore_attempt_jobs() -> None:
    """Write the jobs of attempts that have waited in a queue without one."""
    offered = EvalAttempt.objects.filter(offers.OFFERED, run__status=EvalRun.Status.RUNNING)
    waiting = {str(pk): tries for pk, tries in offered.values_list("pk", "tries")}
    late = _offer_timer.find_unchanged(waiting, WITHOUT_JOB_S)
    for attempt in offered.filter(pk__in=late).select_related("run"):
        jobs = ProcrastinateJob.objects.filter(status__in=UNFINISHED_JOBS, args__attempt_pk=attempt.pk)
        if not jobs.exists():
            run = attempt.run
            queue = attempt_queue(run.app_name, run.code_version, run.adk_version)
            ProcrastinateQueue().defer_attempts([attempt.pk], queue)


def _defer_run(run: Run) -> None:
    ProcrastinateQueue().defer_run(run.pk, run.session.app_name, run.session_id)


def _has_job(run_id: str) -> bool:
    return bool(ProcrastinateJob.objects.filter(status__in=UNFINISHED_JOBS, args__run_id=run_id).exists())
